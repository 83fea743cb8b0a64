#include "infer/engine/engine.h"

#include <algorithm>

#include "kernel/matmul/matmul.h"

namespace deltasane {
namespace {

constexpr int64_t most_padding = 16;  // tokens of a row that nobody reads, where states grow

}  // namespace

struct Engine::Prompt {
  TextRequest request;
  Sequence sequence;
  Tensor<float> logits;

  Prompt(const Engine& engine, TextRequest wanted)
      : request(std::move(wanted)),
        sequence(engine.model_, engine.cpu_, engine.settings_.on_overflow,
                 std::move(request.state)),
        logits(engine.model_.allocate_logits(1)) {
    sequence.append(request.prompt);
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

  Writing(const Engine& engine, const Prompt& prompt, size_t sample, SequenceState state)
      : sequence(engine.model_, engine.cpu_, engine.settings_.on_overflow, std::move(state)),
        sampler(prompt.request.samplers[sample]),
        writer(engine.tokenizer_, engine.settings_.stops, engine.settings_.tokens),
        text{prompt.request.id, sample, {}, 0, Ended::token_limit, {}, sampler, {}} {
    sequence.on_reset = engine.on_reset;
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

bool Engine::step() {
  begin_texts();
  hand_out();  // some end with their first token
  if (prompts_.empty() && writings_.empty()) return !forks_.empty();
  std::vector<SequenceInput> batch;
  std::vector<kernel::SampledToken> sampled(writings_.size());
  const auto count = int64_t(writings_.size()), vocabulary = model_.vocabulary();
  if (!model_.on_gpu() && logits_.elements() < count * vocabulary)
    logits_ = model_.allocate_logits(count);
  for (size_t i = 0; i < writings_.size(); ++i) {
    Writing& one = *writings_[i];
    SequenceInput input = one.sequence.next_input(one.sampler, sampled[i]);
    if (!model_.on_gpu()) input.logits = logits_.view().slice(0, int64_t(i), 1);
    batch.push_back(input);
  }
  add_padding(batch, count);
  std::vector<SequenceInput> prompts;
  for (const auto& prompt : prompts_) {
    SequenceInput input = prompt->sequence.next_input(Want::last_logits);
    if (input.want == Want::last_logits) input.logits = prompt->logits.view();
    prompts.push_back(input);
    if (settings_.batch_invariant && input.tokens.size() == 1)
      model_.forward(input, cpu_);  // a row of its own, whoever else there is
    else
      batch.push_back(input);
  }
  model_.forward(batch, cpu_);
  for (size_t i = 0; i < writings_.size(); ++i) {
    Writing& one = *writings_[i];
    if (one.sequence.take_results(batch[i]))
      take_token(one, sampled[i]);
    else
      one.text.text += one.writer.end(Ended::overflow);
  }
  for (size_t i = 0; i < prompts.size(); ++i) prompts_[i]->sequence.take_results(prompts[i]);
  while (!prompts_.empty()) {
    const auto read = std::ranges::find_if(
        prompts_, [](const auto& prompt) { return !prompt->sequence.is_reading(); });
    if (read == prompts_.end()) break;
    std::shared_ptr<Prompt> prompt = std::move(*read);
    prompts_.erase(read);
    on_prompt_read(prompt->request.id);
    for (size_t sample = 0; sample < prompt->request.samplers.size(); ++sample)
      forks_.push_back({prompt, sample});
  }
  begin_texts();
  hand_out();
  return true;
}

// Texts whose prompt was read begin with its logits.
void Engine::begin_texts() {
  while (!forks_.empty() && int64_t(writings_.size()) < settings_.batch) {
    Fork fork = std::move(forks_.front());
    forks_.pop_front();
    Prompt& prompt = *fork.prompt;
    const bool is_last = fork.prompt.use_count() == 1;
    writings_.push_back(std::make_unique<Writing>(
        *this, prompt, fork.sample,
        is_last ? prompt.sequence.take_state() : prompt.sequence.state().clone()));
    Writing& one = *writings_.back();
    const int64_t position = one.sequence.state().position;
    if (settings_.tokens < 1) {
      one.text.text += one.writer.end(Ended::token_limit);
    } else if (settings_.on_overflow != OnOverflow::end) {
      kernel::SampledToken sampled;
      sampled.token = one.sampler.next(prompt.logits.span(), position);
      take_token(one, sampled);
    } else if (const auto sampled = one.sampler.sample(prompt.logits.span(), position);
               sampled.broken >= 0) {
      one.text.text += one.writer.end(Ended::overflow);
    } else {
      take_token(one, sampled);
    }
  }
}

void Engine::take_token(Writing& one, const kernel::SampledToken& sampled) {
  one.text.pending = sampled.token;
  one.sequence.append({&sampled.token, 1});
  const std::string piece = one.writer.take(sampled.token);
  one.text.text += piece;
  on_text(one.text.request, piece);
}

void Engine::cancel() {
  for (const auto& writing : writings_) writing->text.text += writing->writer.end(Ended::cancelled);
  hand_out();
  prompts_.clear();
  forks_.clear();
}

void Engine::hand_out() {
  for (const auto& writing : writings_) {
    if (!writing->writer.ended()) continue;
    GeneratedText& text = writing->text;
    text.ended = *writing->writer.ended();
    text.tokens = writing->writer.tokens();
    text.state = writing->sequence.take_state();
    text.sampler = writing->sampler;
    on_end(std::move(text));
  }
  std::erase_if(writings_, [](const auto& one) { return one->writer.ended().has_value(); });
}

}  // namespace deltasane
