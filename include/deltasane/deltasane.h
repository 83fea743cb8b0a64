// deltasane: inference of delta-rule language models from C++17 or newer.
//
//     deltasane::Model model = deltasane::Model::open("model.safetensors");
//     deltasane::State state = model.fresh_state();
//     model.generate("12+30=", state, {}, [](std::string_view text) {
//       std::cout << text;
//       return true;
//     });
//
// A recurrent model keeps a state of fixed size instead of a cache that grows. A State is a value:
// copy it, save it, load it in another process and continue with the same bits.
//
// Every failure is a deltasane::Error; most messages read "thing: expected X, found Y". A wrong
// argument leaves the state as it was; after an overflow, continue from a copy. Threads may share a
// Model: calls wait for each other, and each uses all of the model's threads. A State is for one
// thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane {
inline namespace v0 {

// Of the library: "0.2.0" at a release, "0.2.0+14.g4f3e2d1" between releases.
[[gnu::visibility("default")]] const char* version();

using Token = std::int32_t;
using Tokens = std::vector<Token>;

enum class Fault {
  usage,     // an option or a setting that cannot be understood
  argument,  // a wrong value: a token outside of the vocabulary, a state of another model
  file,      // a file is missing, damaged or of another kind
  device,    // no such device, or too little memory on it
  overflow,  // numbers left the finite range
  internal,  // none of these: a fault of the library
};

class [[gnu::visibility("default")]] Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message);
  ~Error() override;
  Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

// One message of a conversation; the role is "system", "user" or "assistant".
struct Message {
  std::string role, text;
};

// A conversation as the tokens that a model was trained on, up to where its answer goes on.
struct ChatPrompt {
  Tokens tokens;
  std::vector<std::string> stop;  // texts that end the answer
  std::string beginning;          // of the answer, which the tokens have already: "<think>\n"
};

// Text to token ids and back. Text is bytes: decode(encode(text)) == text. Copies share the
// vocabulary.
class [[gnu::visibility("default")]] Tokenizer {
 public:
  // "byte", an RWKV World vocabulary file, a tokenizer.json, a folder with one, or a model file or
  // folder that has one inside or beside it.
  static Tokenizer open(const std::string& vocabulary);

  Tokens encode(std::string_view text) const;
  std::string decode(const Tokens& tokens) const;
  std::int32_t vocabulary() const;  // one more than the largest id
  std::optional<Token> end_of_document() const;

  // For generate, from a fresh state. The last message is the user's. mode: "plain", "think" or
  // "fast-think"; chat_template: "world", "chatml" or "chatml-think", empty: the model's own.
  // What the messages say is text alone: names of special tokens in it stay letters.
  ChatPrompt chat(const std::vector<Message>& messages, const std::string& mode = "plain",
                  const std::string& chat_template = "") const;

 private:
  friend class Model;
  struct Held;
  explicit Tokenizer(std::shared_ptr<const Held> held);
  std::shared_ptr<const Held> held_;
};

struct ModelOptions {
  std::string device = "cpu";  // "cpu", "cuda" (the first GPU) or "cuda:N"
  std::string weights;         // compute with f32, f16, bf16, q8, q6_k, q5_k, q4_k or q4; empty: as in the file
  int threads = 0;             // 0: all processors
  std::optional<double>
      sane_alpha;             // SANE for a model that was trained without: tau = alpha ln 2 + 1
  bool without_sane = false;  // no SANE, also for a model that was trained with it
  std::string tokenizer;      // as for Tokenizer::open; empty: the model's own
};

struct ModelDescription {
  std::string name;          // of the file
  std::string architecture;  // "rwkv7"
  std::int64_t layers = 0, channels = 0, vocabulary = 0, parameters = 0;
  std::int64_t state_bytes = 0;
  std::string weights;  // the type the model computes with: "bf16"
  std::string device;   // "cpu", "cuda:0"
  std::string sane;     // "trained SANE with alpha 3, chunk 16"
};

// One named tensor of a layer's state, copied.
struct StatePart {
  std::string name;
  std::string kind;  // "memory" (head, value, key), "shift", "convolution" or "cache"
  std::int64_t layer = 0;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// What a model remembers of one sequence. A copy is deep. A state keeps the weights of its model in
// memory.
class [[gnu::visibility("default")]] State {
 public:
  State(const State& other);
  State(State && other) noexcept;
  State& operator=(const State& other);
  State& operator=(State&& other) noexcept;
  ~State();

  State clone() const { return *this; }
  std::int64_t position() const;  // tokens the model has read
  // A token that belongs to the sequence and that the model has not read: the last one sampled by
  // generate or given to score. The next call reads it first.
  std::optional<Token> pending() const;
  std::vector<StatePart> parts() const;
  // A state file (docs/state-file.md), with the pending token and the sampler. Model::load_state
  // reads it.
  void save(const std::string& path) const;

 private:
  friend class Model;
  struct Held;
  explicit State(std::unique_ptr<Held> held);
  std::unique_ptr<Held> held_;  // null only after a move
};

// How generate samples, and when it ends. In this order: penalties, softmax of logits /
// temperature, top-k, top-p.
struct SamplingSettings {
  std::int64_t max_tokens = 256;
  std::vector<std::string> stop;  // ends before the first of these texts
  double temperature = 1.0;       // 0: the most probable token
  double top_p = 0.8;             // 1: off
  std::int64_t top_k = 20;        // 0: off
  double presence_penalty = 0, frequency_penalty = 0;
  double penalty_decay = 0.996;  // what counts of tokens are multiplied by after each token
  // The same seed draws the same tokens. Where a state has sampled with this seed before, the draws
  // continue.
  std::uint64_t seed = 0;
};

enum class Ended { max_tokens, end_of_document, stop_text, callback };

struct Generated {
  std::string text;  // whole characters, valid UTF-8
  std::int64_t prompt_tokens = 0, tokens = 0;
  Ended ended = Ended::max_tokens;
};

// Weights, and the threads or the GPU that compute with them. Copies share them.
class [[gnu::visibility("default")]] Model {
 public:
  // .pth, .safetensors, .gguf, rwkv.cpp's .bin, or a model folder.
  static Model open(const std::string& path, const ModelOptions& options = {});

  const ModelDescription& description() const;
  // ModelOptions::tokenizer, the vocabulary inside of the file, rwkv_vocab_v20230424.txt beside it,
  // or bytes for a vocabulary of 256.
  Tokenizer tokenizer() const;
  State fresh_state() const;
  State load_state(const std::string& path) const;

  // Reads tokens; returns the logits after the last one, one for each token of the vocabulary.
  std::vector<float> forward(const Tokens& tokens, State& state) const;

  // The same after every token: (tokens read, vocabulary). A pending token is read first.
  std::vector<float> forward_all(const Tokens& tokens, State& state) const;

  // Reads tokens; returns the loss -ln p(token) of each. The first token of a state has none, as
  // nothing predicts it. The last token is left pending, so a text may be scored in pieces.
  std::vector<double> score(const Tokens& tokens, State& state) const;

  // Called with each piece of text that is complete; false ends the generation. What it throws
  // reaches the caller.
  using OnText = std::function<bool(std::string_view piece)>;

  // Reads the prompt, then samples. The last sampled token is left pending. The prompt may be empty
  // where a token is pending.
  Generated generate(std::string_view prompt, State & state, const SamplingSettings& settings = {},
                     const OnText& on_text = {}) const;

  // The same, for a prompt in tokens.
  Generated generate(const Tokens& prompt, State& state, const SamplingSettings& settings = {},
                     const OnText& on_text = {}) const;

  // Several texts at once, `samples` of each prompt, from fresh states: those of the first prompt,
  // then those of the next. On a CPU a text does not depend on the others.
  std::vector<Generated> generate(const std::vector<std::string>& prompts, int samples,
                                  const SamplingSettings& settings = {}) const;

 private:
  friend class State;
  struct Loaded;
  State::Held& own(State & state) const;
  explicit Model(std::shared_ptr<Loaded> loaded);
  std::shared_ptr<Loaded> loaded_;
};

}  // namespace v0
}  // namespace deltasane
