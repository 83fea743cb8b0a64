// Texts of any number of requests at once: continuous batching over one model.
//
// Every step is one forward call: a chunk of each prompt that is being read, and one token of each
// text that is being written. A text that ends makes room for the next. A prompt is read once and
// its state copied for each of its texts.
//
// With EngineSettings::batch_invariant a text depends on its request alone, bit for bit: not on
// other texts, their number or order, or the number of threads. Matrix products of few rows add in
// another order than products of many (kernel/matmul/matmul.h), so a step is then always one of
// many: rows that nobody reads fill it up.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/engine/sequence.h"
#include "infer/engine/text_writer.h"
#include "text/grammar/grammar_matcher.h"

namespace deltasane {

struct EngineSettings {
  std::vector<std::string> stops{};
  int64_t tokens = 256;  // of a text, at most
  int64_t batch = 1;     // texts at a time, 1 to 512
  OnOverflow on_overflow = OnOverflow::stop;
  bool batch_invariant = false;
  // Of prompts a step reads slices, the oldest and the one with the fewest tokens left first in turn: at
  // most so many tokens of one, and so many of all; of the first always. Others who write wait for no
  // more than that.
  int64_t prompts_read = 512;
  int64_t slice_tokens = 1 << 16, prompt_tokens = int64_t{1} << 40;
  // While many texts are written, a prompt waits so long for others to be read with. One of few tokens
  // does not: it is read a token at a time, with theirs. 0: neither.
  std::chrono::microseconds gather_time{0};
  // What a step wrote is told while the next one computes, and texts begin while others go on: a GPU
  // does not wait for who listens.
  bool tells_beside = false;
};

// Added to the logit of a token before it is sampled.
struct TokenBias {
  int32_t token = 0;
  float bias = 0;
};

struct TextRequest {
  uint64_t id = 0;
  SequenceState state;           // what the prompt continues from
  std::vector<int32_t> prompt;   // at least one token
  std::vector<Sampler> samplers;  // one text each
  std::optional<TextLimits> limits{};  // instead of the engine's
  // Log probabilities are wanted of this many of the likeliest tokens, and of the one that is there:
  // of each written token, and of each token of the prompt but the first.
  std::optional<int64_t> top_written{}, top_prompt{};
  std::optional<TokenConstraint> constraint{};  // of what is written; not with top_written
  std::vector<TokenBias> biases{};              // of what is written; not with top_written
  // A text that ends in a stop text leaves the state from before that, to continue from.
  bool keeps_before_stop = false;
  // Ascending places in the prompt, after so many of its tokens, where the state is handed out.
  std::vector<int64_t> keep_states_after{};
};

// By token: its own log probability, and those of the likeliest tokens in its place.
struct LogProbabilities {
  std::vector<double> tokens;
  std::vector<TokenLogProbability> top;  // (tokens, top_count), the likeliest first
  int64_t top_count = 0;
};

struct WrittenToken {
  uint64_t request = 0;
  size_t sample = 0;
  int32_t token = 0;
  const std::string& piece;  // of text, that may be shown now
  const LogProbabilities* log_probabilities = nullptr;  // of this token, where they are wanted
};

struct GeneratedText {
  uint64_t request = 0;
  size_t sample = 0;  // which of the request's samplers
  std::string text;
  int64_t tokens = 0;
  Ended ended = Ended::token_limit;
  std::string stop;  // the text that ended it
  // To resume from: `pending` was sampled and not read.
  SequenceState state;
  Sampler sampler;
  std::optional<int32_t> pending;
  std::vector<int32_t> unread;  // tokens of the text that `state` has not read
};

// A text that is being read or written now, for onlookers.
struct ActiveText {
  uint64_t request = 0;
  size_t sample = 0;
  bool is_reading = false;  // its prompt
  const SequenceState& state;
  const TauRecord* taus = nullptr;  // of the prompt; null: there is no SANE, or nobody looked
  std::span<const double> losses;   // -log p of its last tokens, the newest last
};

class Engine {
 public:
  Engine(const LanguageModel& model, const Tokenizer& tokenizer, const kernel::Cpu& cpu,
         EngineSettings settings);
  ~Engine();

  bool has_room() const;  // whether a further request would begin now
  void submit(TextRequest request);
  bool step();  // false: there was nothing to do, and all is told
  // Cancels all active requests, or one: texts are returned as far as they are written.
  void cancel();
  void cancel(uint64_t request);

  // While it is watched, the engine records thresholds of SANE in prompts, and losses where their
  // logits are on the host. Texts are the same.
  void watch(bool is_watched) { is_watched_ = is_watched; }
  void visit(const std::function<void(const ActiveText&)>& look) const;
  int64_t tokens_read() const { return tokens_read_; }  // of prompts

  // Submits what `next` gives as there is room, until it gives nothing and all texts have ended.
  void run(const std::function<std::optional<TextRequest>()>& next);

  std::function<void(uint64_t request, LogProbabilities)> on_prompt_read =
      [](uint64_t, const LogProbabilities&) {};
  std::function<void(uint64_t request, int64_t after, SequenceState)> on_state_kept =
      [](uint64_t, int64_t, const SequenceState&) {};
  std::function<void(const WrittenToken&)> on_token = [](const WrittenToken&) {};
  std::function<void(GeneratedText)> on_end = [](const GeneratedText&) {};
  std::function<void(const std::string&)> on_reset = [](const std::string&) {};

 private:
  struct Prompt;
  struct Fork;
  struct Writing;

  // What is yet to be told.
  struct Written {
    uint64_t request;
    size_t sample;
    int32_t token;
    std::string piece;
    std::optional<LogProbabilities> log_probabilities;
  };
  void tell();

  void begin_texts();
  std::optional<kernel::SampledToken> sample(Writing& writing, std::span<float> logits);
  void take_token(Writing& writing, const kernel::SampledToken& sampled,
                  std::span<const float> logits);
  bool gathers_prompts() const;
  bool reads_with_others(const TextRequest& request) const;
  std::vector<Prompt*> prompts_of_step();
  void take_prompts(std::span<Prompt* const> read_on, std::span<const SequenceInput> inputs);
  void hand_out();
  void add_padding(std::vector<SequenceInput>& batch, int64_t rows);

  const LanguageModel& model_;
  const Tokenizer& tokenizer_;
  kernel::Cpu cpu_;
  EngineSettings settings_;
  std::vector<Tensor<float>> spare_logits_;  // of prompts that were read: a GPU's are slow to allocate
  std::deque<std::unique_ptr<Prompt>> prompts_;  // being read
  std::deque<Fork> forks_;                       // texts whose prompt was read, not yet begun
  std::vector<std::unique_ptr<Writing>> writings_;
  std::vector<Written> written_;
  std::vector<GeneratedText> ended_;
  std::vector<SequenceState> padding_;
  Tensor<float> logits_;  // of the writings, on the CPU
  bool is_watched_ = false;
  bool shortest_first_ = false;  // in the next step that reads prompts
  int64_t tokens_read_ = 0;
};

}  // namespace deltasane
