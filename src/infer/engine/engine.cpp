#include "infer/engine/engine.h"

#include <algorithm>

#include "kernel/matmul/matmul.h"

namespace deltasane {
namespace {

constexpr int64_t most_padding = 16;  // tokens of a row that nobody reads, where states grow
constexpr size_t most_losses = 512;   // of the last tokens of a watched text
// A pass over a few short prompts takes as long as one over several: with so many texts being written
// it is worth to wait until so many prompts are there, of many texts one for each 16.
constexpr size_t gathering_texts = 16, least_gathered = 8, texts_of_gathered = 16;
// A pass of its own takes a prompt as long as some 20 rows more in the steps of many texts.
constexpr size_t most_read_with_others = 16;

}  // namespace

// A prompt is read in stages: up to each place where its state is kept, and, where it is scored, up to
// its last token, which no token of the prompt follows.
struct Engine::Prompt {
  Engine& engine;
  TextRequest request;
  Sequence sequence;
  Tensor<float> logits;
  LogProbabilities scores;
  std::shared_ptr<TauRecord> taus{};  // while the engine is watched
  int64_t appended = 0, read = 0;  // tokens of the prompt
  size_t states_kept = 0;
  std::chrono::steady_clock::time_point submitted = std::chrono::steady_clock::now();

  Prompt(Engine& of, TextRequest wanted)
      : engine(of),
        request(std::move(wanted)),
        sequence(engine.model_, engine.cpu_, engine.settings_.on_overflow,
                 std::move(request.state)) {
    if (engine.spare_logits_.empty()) {
      logits = engine.model_.allocate_logits(1);
    } else {
      logits = std::move(engine.spare_logits_.back());
      engine.spare_logits_.pop_back();
    }
    scores.top_count = request.top_prompt.value_or(0);
    append_stage();
  }

  ~Prompt() { engine.spare_logits_.push_back(std::move(logits)); }
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  int64_t size() const { return int64_t(request.prompt.size()); }
  bool is_read() const { return read == size(); }

  void append_stage() {
    int64_t end = size();
    if (request.top_prompt && appended < size() - 1) end = size() - 1;
    if (states_kept < request.keep_states_after.size())
      end = std::min(end, request.keep_states_after[states_kept]);
    require(end > appended, "places to keep states ascend, inside of the prompt");
    sequence.append({request.prompt.data() + appended, size_t(end - appended)});
    appended = end;
  }

  SequenceInput next_input() {
    const bool is_last = appended == size();
    SequenceInput input = sequence.next_input(is_last ? Want::last_logits : Want::nothing,
                                              engine.settings_.slice_tokens);
    if (input.want == Want::last_logits) input.logits = logits.view();
    if (input.tokens.size() > 1) input.taus = taus.get();  // a single token shares its pass
    if (request.top_prompt && read < size() - 1) {
      const size_t before = scores.tokens.size(), some = input.tokens.size();
      scores.tokens.resize(before + some);
      scores.top.resize((before + some) * size_t(scores.top_count));
      // A GPU has losses there; of the likeliest tokens the host looks at all logits.
      input.want = scores.top_count > 0 ? Want::top_log_probabilities : Want::losses;
      input.targets = {request.prompt.data() + read + 1, some};
      input.losses = {scores.tokens.data() + before, some};
      input.top_count = scores.top_count;
      input.top = {scores.top.data() + before * size_t(scores.top_count),
                   some * size_t(scores.top_count)};
    }
    return input;
  }
};

struct Engine::Fork {
  std::shared_ptr<Prompt> prompt;
  size_t sample;
};

struct Engine::Writing {
  Sequence sequence;
  Sampler sampler;
  TextWriter writer;
  GeneratedText text;
  bool keeps_before_stop;
  std::optional<SequenceState> before_stop{};  // from before a stop text that may be forming
  std::string since_stop{};                    // text that was given out since
  std::optional<TokenConstraint> constraint;
  bool ends_whole = false;  // the last token is one of the text: no other may follow
  std::vector<TokenBias> biases;
  std::optional<int64_t> top;  // how many of the likeliest tokens' log probabilities are wanted
  std::shared_ptr<TauRecord> taus;
  std::vector<double> losses{};  // of the last tokens
  std::vector<int32_t> prompt{};  // that is read a token at a time, before it writes; empty: none
  size_t prompt_read = 0;

  Writing(const Engine& engine, const TextRequest& request, size_t sample, SequenceState state,
          std::shared_ptr<TauRecord> of_prompt)
      : sequence(engine.model_, engine.cpu_, engine.settings_.on_overflow, std::move(state)),
        sampler(request.samplers[sample]),
        writer(engine.tokenizer_, limits_of(engine, request)),
        text{request.id, sample, {}, 0, Ended::token_limit, {}, {}, sampler, {}, {}},
        keeps_before_stop(request.keeps_before_stop),
        constraint(request.constraint),
        biases(request.biases),
        top(request.top_written),
        taus(std::move(of_prompt)) {
    sequence.on_reset = engine.on_reset;
  }

  void begin_prompt(std::vector<int32_t> tokens) {
    prompt = std::move(tokens);
    sequence.append({prompt.data(), 1});
  }
  bool has_more_prompt() const { return prompt_read + 1 < prompt.size(); }
  // After a step. False: there is more of the prompt.
  bool take_prompt_token() {
    if (++prompt_read == prompt.size()) return true;
    sequence.append({prompt.data() + prompt_read, 1});
    return false;
  }

  bool changes_logits() const { return constraint || !biases.empty(); }
  bool wants_logits() const { return top || changes_logits(); }  // and the host samples

  void add_loss(double loss) {
    if (losses.size() == 2 * most_losses) losses.erase(losses.begin(), losses.begin() + most_losses);
    losses.push_back(loss);
  }

  // The state has not read the token that was just taken.
  void follow_stop(bool could_stop, const std::string& piece) {
    if (!writer.may_stop()) {
      before_stop.reset();
      return;
    }
    if (!could_stop || !before_stop) before_stop = sequence.state().clone(), since_stop.clear();
    since_stop += piece;
  }

  static TextLimits limits_of(const Engine& engine, const TextRequest& request) {
    const EngineSettings& settings = engine.settings_;
    return request.limits ? *request.limits : TextLimits{settings.stops, settings.tokens};
  }
};

Engine::Engine(const LanguageModel& model, const Tokenizer& tokenizer, const kernel::Cpu& cpu,
               EngineSettings settings)
    : model_(model), tokenizer_(tokenizer), cpu_(cpu), settings_(std::move(settings)) {
  if (settings_.batch < 1 || settings_.batch > 512)
    fail(Fault::usage, "batch: expected 1 to 512 sequences, found ", settings_.batch);
}

Engine::~Engine() = default;

bool Engine::has_room() const {
  size_t texts = writings_.size() + forks_.size();
  for (const auto& prompt : prompts_) texts += prompt->request.samplers.size();
  return int64_t(texts) < settings_.batch;
}

void Engine::submit(TextRequest request) {
  require(!request.prompt.empty() && !request.samplers.empty(), "a request has a prompt and texts");
  if (reads_with_others(request)) {
    writings_.push_back(
        std::make_unique<Writing>(*this, request, 0, std::move(request.state), nullptr));
    writings_.back()->begin_prompt(std::move(request.prompt));
    return;
  }
  prompts_.push_back(std::make_unique<Prompt>(*this, std::move(request)));
  prompts_.back()->sequence.on_reset = on_reset;
}

void Engine::run(const std::function<std::optional<TextRequest>()>& next) {
  for (bool more = true;;) {
    while (more && has_room()) {
      std::optional<TextRequest> request = next();
      more = request.has_value();
      if (more) submit(std::move(*request));
    }
    if (!step()) return;
  }
}

// A plain text with a short prompt, of which nothing but the text is wanted.
bool Engine::reads_with_others(const TextRequest& request) const {
  const bool has_others = settings_.gather_time.count() > 0 && writings_.size() >= gathering_texts;
  const bool may_vary = !settings_.batch_invariant && settings_.on_overflow == OnOverflow::end;
  return has_others && may_vary && !is_watched_ &&
         request.prompt.size() <= most_read_with_others && request.samplers.size() == 1 &&
         Writing::limits_of(*this, request).tokens > 0 && request.state.alphas.empty() &&
         !request.top_prompt && !request.top_written && !request.constraint &&
         request.biases.empty() && request.keep_states_after.empty();
}

bool Engine::gathers_prompts() const {
  if (settings_.gather_time.count() == 0 || writings_.size() < gathering_texts) return false;
  const size_t enough = std::max(least_gathered, writings_.size() / texts_of_gathered);
  if (prompts_.empty() || prompts_.size() >= enough) return false;
  const Prompt& oldest = *prompts_.front();
  return oldest.read == 0 &&
         std::chrono::steady_clock::now() - oldest.submitted < settings_.gather_time;
}

// A prompt of few tokens waits for one slice of another, whatever else is read; a long one has half of
// all slices once it is the oldest.
std::vector<Engine::Prompt*> Engine::prompts_of_step() {
  std::vector<Prompt*> order, found;
  if (prompts_.empty() || gathers_prompts()) return found;
  for (const auto& prompt : prompts_) order.push_back(prompt.get());
  if (std::exchange(shortest_first_, !shortest_first_))
    std::ranges::stable_sort(order, {}, [](const Prompt* one) { return one->size() - one->read; });
  int64_t tokens = 0;
  for (Prompt* const prompt : order) {
    tokens += prompt->sequence.next_count(settings_.slice_tokens);
    if (int64_t(found.size()) == settings_.prompts_read) break;
    if (!found.empty() && tokens > settings_.prompt_tokens) break;
    found.push_back(prompt);
  }
  return found;
}

// The rest of a step that is always one of many.
void Engine::add_padding(std::vector<SequenceInput>& batch, int64_t rows) {
  static constexpr int32_t token = 0;
  const int64_t wanted = settings_.batch_invariant && rows > 0 ? kernel::matmul_few_tokens + 1 : 0;
  while (rows + int64_t(padding_.size()) < wanted) padding_.push_back(model_.fresh_state());
  for (int64_t i = 0; i < wanted - rows; ++i) {
    SequenceState& state = padding_[size_t(i)];
    // Caches would grow for as long as the engine runs.
    if (state.layout().caches() > 0 && state.position >= most_padding) state = model_.fresh_state();
    batch.push_back({{&token, 1}, &state});
  }
}

// Tokens before ends: a text's last token comes with its end.
void Engine::tell() {
  for (const Written& one : written_) {
    WrittenToken token{one.request, one.sample, one.token, one.piece};
    if (one.log_probabilities) token.log_probabilities = &*one.log_probabilities;
    on_token(token);
  }
  written_.clear();
  for (GeneratedText& text : std::exchange(ended_, {})) on_end(std::move(text));
}

bool Engine::step() {
  if (!settings_.tells_beside || writings_.empty()) begin_texts();
  hand_out();  // some end with their first token
  if (prompts_.empty() && writings_.empty()) {
    tell();
    return !forks_.empty();
  }
  std::vector<SequenceInput> batch;
  std::vector<kernel::SampledToken> sampled(writings_.size());
  const auto count = int64_t(writings_.size()), vocabulary = model_.vocabulary();
  const bool any_wants =
      std::ranges::any_of(writings_, [](const auto& one) { return one->wants_logits(); });
  if ((!model_.on_gpu() || any_wants) && logits_.elements() < count * vocabulary)
    logits_ = model_.allocate_logits(count);
  for (size_t i = 0; i < writings_.size(); ++i) {
    Writing& one = *writings_[i];
    if (one.has_more_prompt()) {
      batch.push_back(one.sequence.next_input(Want::nothing));
      continue;
    }
    SequenceInput input = one.wants_logits() ? one.sequence.next_input(Want::last_logits)
                                  : one.sequence.next_input(one.sampler, sampled[i]);
    if (!model_.on_gpu() || one.wants_logits()) input.logits = logits_.view().slice(0, int64_t(i), 1);
    batch.push_back(input);
  }
  add_padding(batch, count);
  const std::vector<Prompt*> read_on = prompts_of_step();
  std::vector<SequenceInput> prompts;
  for (Prompt* const prompt : read_on) {
    if (is_watched_ && !prompt->taus && model_.sane().kind != SaneKind::none)
      prompt->taus = std::make_shared<TauRecord>(*model_.state_layout());
    prompts.push_back(prompt->next_input());
    if (settings_.batch_invariant && prompts.back().tokens.size() == 1)
      model_.forward(prompts.back(), cpu_);  // a row of its own, whoever else there is
    else
      batch.push_back(prompts.back());
  }
  const auto beside = [this] {
    tell();
    if (settings_.tells_beside) begin_texts();
  };
  model_.forward(batch, cpu_, beside);
  for (size_t i = 0; i < sampled.size(); ++i) {
    Writing& one = *writings_[i];
    std::span<float> logits;
    if (one.wants_logits())
      logits = logits_.span().subspan(i * size_t(vocabulary), size_t(vocabulary));
    const bool is_finite = one.sequence.take_results(batch[i]);
    if (!one.prompt.empty()) {
      ++tokens_read_;
      if (!one.take_prompt_token()) continue;
      one.prompt.clear();
      on_prompt_read(one.text.request, {});
    }
    std::optional<kernel::SampledToken> found = sampled[i];
    if (is_watched_ && is_finite && !one.wants_logits() && !model_.on_gpu())
      one.add_loss(-log_probability(logits_.span().subspan(i * size_t(vocabulary), size_t(vocabulary)),
                                    sampled[i].token));
    if (is_finite && one.wants_logits()) found = sample(one, logits);
    if (is_finite && found)
      take_token(one, *found, logits);
    else
      one.text.text += one.writer.end(Ended::overflow);
  }
  take_prompts(read_on, prompts);
  if (!settings_.tells_beside) begin_texts();
  hand_out();
  if (!settings_.tells_beside) tell();
  return true;
}

// After the step that read them on.
void Engine::take_prompts(std::span<Prompt* const> read_on, std::span<const SequenceInput> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Prompt& prompt = *read_on[i];
    prompt.sequence.take_results(inputs[i]);
    prompt.read += int64_t(inputs[i].tokens.size());
    tokens_read_ += int64_t(inputs[i].tokens.size());
    if (prompt.sequence.is_reading()) continue;
    const std::vector<int64_t>& kept = prompt.request.keep_states_after;
    if (prompt.states_kept < kept.size() && kept[prompt.states_kept] == prompt.read) {
      on_state_kept(prompt.request.id, prompt.read, prompt.sequence.state().clone());
      ++prompt.states_kept;
    }
    if (!prompt.is_read()) prompt.append_stage();
  }
  while (!prompts_.empty()) {
    const auto read =
        std::ranges::find_if(prompts_, [](const auto& prompt) { return prompt->is_read(); });
    if (read == prompts_.end()) break;
    std::shared_ptr<Prompt> prompt = std::move(*read);
    prompts_.erase(read);
    for (double& loss : prompt->scores.tokens) loss = -loss;
    on_prompt_read(prompt->request.id, std::move(prompt->scores));
    for (size_t sample = 0; sample < prompt->request.samplers.size(); ++sample)
      forks_.push_back({prompt, sample});
  }
}

// Texts whose prompt was read begin with its logits.
void Engine::begin_texts() {
  while (!forks_.empty() && int64_t(writings_.size()) < settings_.batch) {
    Fork fork = std::move(forks_.front());
    forks_.pop_front();
    Prompt& prompt = *fork.prompt;
    const bool is_last = fork.prompt.use_count() == 1;
    writings_.push_back(std::make_unique<Writing>(
        *this, prompt.request, fork.sample,
        is_last ? prompt.sequence.take_state() : prompt.sequence.state().clone(), prompt.taus));
    Writing& one = *writings_.back();
    const int64_t position = one.sequence.state().position;
    // Other texts begin with the same logits.
    std::vector<float> own;
    if (one.changes_logits()) own.assign(prompt.logits.span().begin(), prompt.logits.span().end());
    const std::span<float> logits = one.changes_logits() ? std::span(own) : prompt.logits.span();
    if (one.writer.limit() < 1) {
      one.text.text += one.writer.end(Ended::token_limit);
    } else if (one.changes_logits()) {
      if (const auto sampled = sample(one, logits))
        take_token(one, *sampled, logits);
      else
        one.text.text += one.writer.end(Ended::overflow);
    } else if (settings_.on_overflow != OnOverflow::end) {
      kernel::SampledToken sampled;
      sampled.token = one.sampler.next(logits, position);
      take_token(one, sampled, logits);
    } else if (const auto sampled = one.sampler.sample(logits, position); sampled.broken >= 0) {
      one.text.text += one.writer.end(Ended::overflow);
    } else {
      take_token(one, sampled, logits);
    }
  }
}

// None where the logits are not finite, or no token is allowed.
std::optional<kernel::SampledToken> Engine::sample(Writing& one, std::span<float> logits) {
  for (const auto& [token, bias] : one.biases) logits[size_t(token)] += bias;
  if (one.constraint && !one.constraint->mask(logits)) return std::nullopt;
  const auto sampled = one.sampler.sample(logits, one.sequence.state().position);
  if (sampled.broken >= 0) return std::nullopt;
  return sampled;
}

void Engine::take_token(Writing& one, const kernel::SampledToken& sampled,
                        std::span<const float> logits) {
  one.text.pending = sampled.token;
  one.sequence.append({&sampled.token, 1});
  const bool could_stop = one.writer.may_stop();
  std::string piece = one.writer.take(sampled.token);
  if (one.constraint) {
    one.constraint->take(sampled.token);
    if (one.constraint->is_over() && !one.writer.ended()) {
      piece += one.writer.end(Ended::end_of_document);
      one.ends_whole = true;
    }
  }
  one.text.text += piece;
  if (one.keeps_before_stop) one.follow_stop(could_stop, piece);
  Written& written = written_.emplace_back(
      Written{one.text.request, one.text.sample, sampled.token, std::move(piece), {}});
  if (!one.top) return;
  LogProbabilities& found = written.log_probabilities.emplace();
  found.tokens.push_back(log_probability(logits, sampled.token));
  found.top.resize(size_t(*one.top));
  found.top_count = *one.top;
  take_top(logits, found.top);
}

void Engine::visit(const std::function<void(const ActiveText&)>& look) const {
  const auto last = [](const std::vector<double>& losses) {
    return std::span(losses).last(std::min(losses.size(), most_losses));
  };
  for (const auto& prompt : prompts_)
    look({prompt->request.id, 0, true, prompt->sequence.state(), prompt->taus.get(),
          last(prompt->scores.tokens)});
  for (const auto& one : writings_)
    look({one->text.request, one->text.sample, !one->prompt.empty(), one->sequence.state(), one->taus.get(),
          last(one->losses)});
}

void Engine::cancel() {
  for (const auto& writing : writings_) writing->text.text += writing->writer.end(Ended::cancelled);
  hand_out();
  tell();
  prompts_.clear();
  forks_.clear();
}

void Engine::cancel(uint64_t request) {
  for (const auto& writing : writings_)
    if (writing->text.request == request)
      writing->text.text += writing->writer.end(Ended::cancelled);
  hand_out();
  tell();
  std::erase_if(prompts_, [&](const auto& prompt) { return prompt->request.id == request; });
  std::erase_if(forks_, [&](const Fork& fork) { return fork.prompt->request.id == request; });
}

void Engine::hand_out() {
  for (const auto& writing : writings_) {
    if (!writing->writer.ended()) continue;
    GeneratedText& text = writing->text;
    text.ended = *writing->writer.ended();
    text.tokens = writing->writer.tokens();
    text.stop = writing->writer.stop();
    if (text.ended == Ended::stop_text && writing->before_stop) {
      text.state = std::move(*writing->before_stop);
      text.unread = tokenizer_.encode(writing->since_stop);
    } else {
      text.state = writing->sequence.take_state();
      const bool is_cut = text.ended == Ended::token_limit || text.ended == Ended::cancelled;
      if ((is_cut || writing->ends_whole) && text.pending) text.unread = {*text.pending};
    }
    text.sampler = writing->sampler;
    ended_.push_back(std::move(text));
  }
  std::erase_if(writings_, [](const auto& one) { return one->writer.ended().has_value(); });
}

}  // namespace deltasane
