#include <algorithm>
#include <mutex>
#include <new>

#include "base/version.h"
#include "format/tokenizer/find_tokenizer.h"
#include "infer/engine/engine.h"
#include "kernel/matmul/weights.h"
#include "model/registry.h"
#include "text/chat/chat_template.h"

// Lower layers have classes of these names, too. The public ones are in deltasane::v0 and are found
// first there; included after all others, they change the meaning of no other header.
namespace deltasane::below {
using deltasane::ChatTemplate;
using deltasane::Ended;
using deltasane::Error;
using deltasane::Fault;
using deltasane::GeneratedText;
using deltasane::Message;
using deltasane::Role;
using deltasane::StatePart;
using deltasane::Tokenizer;
}  // namespace deltasane::below

#include <deltasane/deltasane.h>

namespace deltasane {
inline namespace v0 {
namespace {

Fault public_fault(below::Fault fault) {
  switch (fault) {
    case below::Fault::usage:
      return Fault::usage;
    case below::Fault::argument:
      return Fault::argument;
    case below::Fault::file:
      return Fault::file;
    case below::Fault::device:
      return Fault::device;
    case below::Fault::overflow:
      return Fault::overflow;
  }
  return Fault::internal;
}

// Runs `body`; whatever it throws leaves as the public Error.
template <class Body>
auto translated(Body&& body) {
  try {
    return body();
  } catch (const below::Error& error) {
    throw Error(public_fault(error.fault()), error.what());
  } catch (const std::bad_alloc&) {
    throw Error(Fault::device, "memory: expected enough, found too little");
  } catch (const fs::filesystem_error& error) {
    throw Error(Fault::file, error.what());
  } catch (const std::exception& error) {
    throw Error(Fault::internal, error.what());
  }
}

std::optional<kernel::WeightType> weight_type_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  return kernel::weight_type_named(name, "weights");
}

OpenOptions options_of(const ModelOptions& options) {
  return {device_named(options.device), weight_type_named(options.weights),
          SaneChoice{options.sane_alpha, options.without_sane}};
}

SamplerSettings sampler_settings(const SamplingSettings& settings) {
  SamplerSettings all;
  all.temperature = settings.temperature;
  all.top_p = settings.top_p, all.top_k = settings.top_k;
  all.presence_penalty = settings.presence_penalty;
  all.frequency_penalty = settings.frequency_penalty;
  all.penalty_decay = settings.penalty_decay;
  all.seed = settings.seed;
  return all;
}

ModelDescription describe(const LanguageModel& model, const std::string& path) {
  ModelDescription found;
  found.name = fs::path(path).filename().string();
  found.architecture = model.description().architecture;
  found.layers = model.description().layers, found.channels = model.description().channels;
  found.vocabulary = model.vocabulary();
  for (const std::string& name : model.checkpoint().names())
    found.parameters += model.checkpoint().shape(name).elements();
  found.state_bytes = 4 * model.state_layout()->floats();
  found.weights = model.weight_type();
  found.device = to_string(model.device());
  found.sane = to_string(model.sane());
  return found;
}

Ended public_ended(below::Ended ended) {
  switch (ended) {
    case below::Ended::end_of_document:
      return Ended::end_of_document;
    case below::Ended::stop_text:
      return Ended::stop_text;
    case below::Ended::cancelled:
      return Ended::callback;
    default:
      return Ended::max_tokens;
  }
}

}  // namespace

const char* version() { return build_version().data(); }

Error::Error(Fault fault, const std::string& message)
    : std::runtime_error(message), fault_(fault) {}
Error::~Error() = default;

struct Tokenizer::Held {
  std::unique_ptr<below::Tokenizer> tokenizer;
};

Tokenizer::Tokenizer(std::shared_ptr<const Held> held) : held_(std::move(held)) {}

Tokenizer Tokenizer::open(const std::string& vocabulary) {
  return translated(
      [&] { return Tokenizer(std::make_shared<Held>(Held{tokenizer_named(vocabulary)})); });
}

Tokens Tokenizer::encode(std::string_view text) const {
  return translated([&] { return held_->tokenizer->encode(text); });
}

std::string Tokenizer::decode(const Tokens& tokens) const {
  return translated([&] { return held_->tokenizer->decode(tokens); });
}

std::int32_t Tokenizer::vocabulary() const { return held_->tokenizer->vocabulary_size(); }

std::optional<Token> Tokenizer::end_of_document() const {
  return held_->tokenizer->end_of_document();
}

namespace {

below::Role role_named(const std::string& name) {
  if (name == "system") return below::Role::system;
  if (name == "user") return below::Role::user;
  if (name == "assistant") return below::Role::assistant;
  fail(below::Fault::argument, "role: expected system, user or assistant, found '", name, "'");
}

std::unique_ptr<below::ChatTemplate> template_for(const below::Tokenizer& tokenizer,
                                                  const std::string& name) {
  if (!name.empty()) return chat_template_named(name);
  std::unique_ptr<below::ChatTemplate> own = chat_template_of(tokenizer);
  if (!own)
    fail(below::Fault::usage, "chat template: expected one with the tokenizer, found none that is known; name ",
         chat_template_names);
  return own;
}

}  // namespace

ChatPrompt Tokenizer::chat(const std::vector<Message>& messages, const std::string& mode,
                           const std::string& chat_template) const {
  return translated([&] {
    const auto used = template_for(*held_->tokenizer, chat_template);
    const ReplyMode reply = reply_mode_named(mode);
    std::vector<below::Message> all;
    for (const Message& one : messages) all.push_back({role_named(one.role), one.text});
    if (all.empty() || all.back().role != below::Role::user)
      fail(below::Fault::argument, "messages: expected the user's as the last one, found ",
           all.empty() ? "none" : messages.back().role);
    ChatPrompt prompt;
    used->append_prompt(all, reply, *held_->tokenizer, prompt.tokens);
    prompt.stop = used->stops();
    prompt.beginning = used->reply_beginning(reply);
    return prompt;
  });
}

struct Model::Loaded {
  Loaded(const std::string& file, const ModelOptions& options)
      : path(file),
        vocabulary_name(options.tokenizer),
        threads(options.threads),
        owned(open_model(file, options_of(options))),
        model(*owned),
        description(describe(model, file)) {}

  kernel::Cpu cpu() { return {threads}; }

  std::shared_ptr<const Tokenizer::Held> tokenizer() {
    const std::lock_guard lock(opening);
    if (opened) return opened;
    Tokenizer::Held held;
    if (!vocabulary_name.empty())
      held.tokenizer = tokenizer_named(vocabulary_name);
    else
      held.tokenizer = find_tokenizer(model.checkpoint().file(), description.vocabulary);
    if (!held.tokenizer)
      fail(below::Fault::file, path, ": expected a tokenizer inside it, or ",
           tokenizers_beside(path), ", found none; name one in ModelOptions::tokenizer");
    opened = std::make_shared<const Tokenizer::Held>(std::move(held));
    return opened;
  }

  // For calls of an open model: one at a time uses the threads.
  template <class Body>
  auto alone(Body&& body) {
    return translated([&] {
      const std::lock_guard lock(running);
      return body();
    });
  }

  const std::string path, vocabulary_name;
  ThreadPool threads;
  const std::unique_ptr<const LanguageModel> owned;
  const LanguageModel& model;
  const ModelDescription description;
  std::mutex running, opening;
  std::shared_ptr<const Tokenizer::Held> opened;
};

struct State::Held {
  explicit Held(std::shared_ptr<Model::Loaded> of)
      : loaded(std::move(of)), sequence(loaded->model, loaded->cpu()) {}

  Tokens with_pending(const Tokens& tokens) const {
    Tokens all;
    all.reserve(tokens.size() + 1);
    if (pending) all.push_back(*pending);
    all.insert(all.end(), tokens.begin(), tokens.end());
    return all;
  }

  // Before anything is read: a wrong token must not leave half of the others read.
  void expect_known(const Tokens& tokens) const {
    for (const Token token : tokens)
      if (token < 0 || token >= loaded->description.vocabulary)
        fail(below::Fault::argument, "token: expected 0 to ", loaded->description.vocabulary - 1,
             ", found ", token);
  }

  void read(const Tokens& tokens) {
    const Tokens all = with_pending(tokens);
    if (all.empty()) fail(below::Fault::argument, "tokens: expected at least one, found none");
    expect_known(all);
    pending.reset();
    sequence.read(all);
  }

  // A state that was read with, if its numbers are finite.
  void take(SequenceState after, std::optional<Token> left) {
    if (const StateScan scan = scan_state(after); !scan.finite())
      fail(below::Fault::overflow, overflow_message(*scan.not_finite, after.position - 1));
    sequence.set_state(std::move(after));
    pending = left;
  }

  const std::shared_ptr<Model::Loaded> loaded;
  Sequence sequence;
  std::optional<Token> pending;
  std::optional<SamplerState> sampler;
};

State::State(std::unique_ptr<Held> held) : held_(std::move(held)) {}
State::State(State&& other) noexcept = default;
State& State::operator=(State&& other) noexcept = default;
State::~State() = default;

State::State(const State& other) {
  if (!other.held_) return;
  held_ = other.held_->loaded->alone([&] {
    auto copy = std::make_unique<Held>(other.held_->loaded);
    copy->sequence.set_state(other.held_->sequence.state().clone());
    copy->pending = other.held_->pending;
    copy->sampler = other.held_->sampler;
    return copy;
  });
}

State& State::operator=(const State& other) { return *this = State(other); }

std::int64_t State::position() const { return held_ ? held_->sequence.state().position : 0; }

std::optional<Token> State::pending() const {
  return held_ ? held_->pending : std::optional<Token>();
}

std::vector<StatePart> State::parts() const {
  std::vector<StatePart> found;
  if (!held_) return found;
  return held_->loaded->alone([&] {
    const SequenceState& state = held_->sequence.state();
    for (const below::StatePart& part : state.layout().parts()) {
      const std::span<const float> values = state.of(part);
      StatePart one{part.name, std::string(name_of(part.kind)), part.layer, {}, {}};
      if (part.grows()) one.shape.push_back(std::int64_t(values.size()) / part.floats());
      one.shape.insert(one.shape.end(), part.shape.begin(), part.shape.end());
      one.values.assign(values.begin(), values.end());
      found.push_back(std::move(one));
    }
    return std::move(found);
  });
}

void State::save(const std::string& path) const {
  if (!held_)
    throw Error(Fault::argument, "state: expected a state, found one that was moved from");
  held_->loaded->alone([&] {
    StateStamp stamp;
    stamp.last_token = held_->pending;
    if (held_->sampler) stamp.sampler = held_->sampler->save();
    stamp.creator = cat("deltasane ", build_version());
    held_->sequence.save(path, held_->loaded->description.name, stamp);
  });
}

Model::Model(std::shared_ptr<Loaded> loaded) : loaded_(std::move(loaded)) {}

Model Model::open(const std::string& path, const ModelOptions& options) {
  return translated([&] { return Model(std::make_shared<Loaded>(path, options)); });
}

const ModelDescription& Model::description() const { return loaded_->description; }

Tokenizer Model::tokenizer() const {
  return translated([&] { return Tokenizer(loaded_->tokenizer()); });
}

State Model::fresh_state() const {
  return loaded_->alone([&] { return State(std::make_unique<State::Held>(loaded_)); });
}

State Model::load_state(const std::string& path) const {
  return loaded_->alone([&] {
    auto held = std::make_unique<State::Held>(loaded_);
    const StateStamp stamp = held->sequence.load(path, loaded_->description.name, OtherSane::refuse);
    held->pending = stamp.last_token;
    if (!stamp.sampler.empty()) held->sampler = SamplerState::load(stamp.sampler);
    return State(std::move(held));
  });
}

State::Held& Model::own(State& state) const {
  if (!state.held_ || state.held_->loaded != loaded_)
    throw Error(Fault::argument, "state: expected one of this model, found another");
  return *state.held_;
}

std::vector<float> Model::forward(const Tokens& tokens, State& state) const {
  State::Held& held = own(state);
  return loaded_->alone([&] {
    held.read(tokens);
    const std::span<const float> logits = held.sequence.logits();
    return std::vector<float>(logits.begin(), logits.end());
  });
}

std::vector<float> Model::forward_all(const Tokens& tokens, State& state) const {
  State::Held& held = own(state);
  return loaded_->alone([&] {
    const Tokens all = held.with_pending(tokens);
    held.expect_known(all);
    std::vector<float> logits(all.size() * size_t(loaded_->description.vocabulary));
    if (all.empty()) return logits;
    SequenceState after = held.sequence.state().clone();
    SequenceInput input{all, &after, Want::all_logits};
    input.logits = {logits.data(), {std::int64_t(all.size()), loaded_->description.vocabulary}};
    loaded_->model.forward(input, loaded_->cpu());
    held.take(std::move(after), std::nullopt);
    return logits;
  });
}

std::vector<double> Model::score(const Tokens& tokens, State& state) const {
  State::Held& held = own(state);
  return loaded_->alone([&] {
    const Tokens all = held.with_pending(tokens);
    held.expect_known(all);
    if (all.empty()) return std::vector<double>();
    std::vector<double> losses(all.size() - 1);
    SequenceState after = held.sequence.state().clone();
    deltasane::score(loaded_->model, {all.data(), losses.size()}, {all.data() + 1, losses.size()},
                     after, losses, loaded_->cpu());
    held.take(std::move(after), all.back());
    return losses;
  });
}

Generated Model::generate(std::string_view prompt, State& state, const SamplingSettings& settings,
                          const OnText& on_text) const {
  const State::Held& held = own(state);
  const Tokenizer vocabulary = tokenizer();
  const Tokens tokens = loaded_->alone([&] {
    const below::Tokenizer& tokenizer = *vocabulary.held_->tokenizer;
    const bool fresh = held.sequence.state().position == 0 && !held.pending;
    return fresh ? tokenizer.encode_document(prompt) : tokenizer.encode(prompt);
  });
  return generate(tokens, state, settings, on_text);
}

Generated Model::generate(const Tokens& tokens, State& state, const SamplingSettings& settings,
                          const OnText& on_text) const {
  State::Held& held = own(state);
  Generated made;
  const Tokenizer vocabulary = tokenizer();
  const below::Tokenizer& tokenizer = *vocabulary.held_->tokenizer;
  std::optional<Engine> engine;
  std::string piece;
  loaded_->alone([&] {
    const SamplerSettings how = sampler_settings(settings);
    const bool continues = held.sampler && held.sampler->seed == settings.seed;
    made.prompt_tokens = std::int64_t(tokens.size());
    // A copy of the state: an error leaves the caller's as it was.
    TextRequest request{0, held.sequence.state().clone(), held.with_pending(tokens), {}};
    if (request.prompt.empty())
      fail(below::Fault::argument, "tokens: expected at least one, found none");
    held.expect_known(request.prompt);
    request.samplers.emplace_back(
        how, continues ? *held.sampler : SamplerState{settings.seed, 0, 0, {}});
    engine.emplace(loaded_->model, tokenizer, loaded_->cpu(),
                   EngineSettings{.stops = settings.stop, .tokens = settings.max_tokens});
    engine->on_token = [&](const WrittenToken& written) { piece += written.piece; };
    engine->on_end = [&](below::GeneratedText text) {
      made.text = text.text, made.tokens = text.tokens, made.ended = public_ended(text.ended);
      held.sequence.set_state(std::move(text.state));
      held.pending = text.pending;
      held.sampler = text.sampler.state();
    };
    engine->submit(std::move(request));
  });
  for (bool more = true; more;) {
    piece.clear();
    more = loaded_->alone([&] { return engine->step(); });
    // The callback is the caller's: it runs while no lock is held, and its exceptions are not
    // translated.
    if (piece.empty() || !on_text) continue;
    const auto stop = [&] { loaded_->alone([&] { engine->cancel(); }); };
    try {
      if (on_text(piece)) continue;
    } catch (...) {
      stop();  // the state is as far as the text was written
      throw;
    }
    stop();
    made.ended = Ended::callback;
    return made;
  }
  return made;
}

std::vector<Generated> Model::generate(const std::vector<std::string>& prompts, int samples,
                                       const SamplingSettings& settings) const {
  const Tokenizer vocabulary = tokenizer();
  const below::Tokenizer& tokenizer = *vocabulary.held_->tokenizer;
  return loaded_->alone([&] {
    if (samples < 1) fail(below::Fault::argument, "samples: expected at least 1, found ", samples);
    std::vector<Tokens> tokens;
    for (const std::string& prompt : prompts) {
      tokens.push_back(tokenizer.encode_document(prompt));
      if (tokens.back().empty())
        fail(below::Fault::argument, "prompts[", tokens.size() - 1,
             "]: expected at least one token, found none");
    }
    const auto each = std::size_t(samples);
    std::vector<Generated> made(prompts.size() * each);
    Engine engine(loaded_->model, tokenizer, loaded_->cpu(),
                  EngineSettings{.stops = settings.stop,
                                 .tokens = settings.max_tokens,
                                 .batch = std::clamp<std::int64_t>(std::int64_t(made.size()), 1, 64),
                                 .batch_invariant = !loaded_->model.on_gpu()});
    engine.on_end = [&](const below::GeneratedText& text) {
      made[std::size_t(text.request) * each + text.sample] = {
          text.text, std::int64_t(tokens[std::size_t(text.request)].size()), text.tokens,
          public_ended(text.ended)};
    };
    std::size_t next = 0;
    engine.run([&]() -> std::optional<TextRequest> {
      if (next == tokens.size()) return std::nullopt;
      TextRequest request{next, loaded_->model.fresh_state(), tokens[next], {}};
      for (std::size_t i = 0; i < each; ++i)  // the first draws as a text of its own would
        request.samplers.emplace_back(sampler_settings(settings),
                                      SamplerState{settings.seed, i, 0, {}});
      ++next;
      return request;
    });
    return made;
  });
}

}  // namespace v0
}  // namespace deltasane
