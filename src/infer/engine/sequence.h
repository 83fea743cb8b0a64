// One sequence that a model reads and writes: its state, the tokens it has yet to read, its sampler,
// and what happens when numbers overflow.
//
// A scheduler asks each of its sequences for the next input, runs them as one batch, and has each
// take its results. A state is scanned when tokens have been read, at the model's tiles. With
// OnOverflow::stop a state that is not finite is an error which names position, layer and head; the
// state is left as it was before the chunk that broke it. With reset the state is cleared there, the
// position continues, and the rest of the input is read. With OnOverflow::end nothing is scanned: the
// sequence ends at the first logits that are not finite.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/state_file.h"
#include "infer/state_scan.h"
#include "model/language_model.h"

namespace deltasane {

class Sequence {
 public:
  Sequence(const LanguageModel& model, const kernel::Cpu& cpu, OnOverflow on_overflow,
           SequenceState state);
  Sequence(const LanguageModel& model, const kernel::Cpu& cpu,
           OnOverflow on_overflow = OnOverflow::stop)
      : Sequence(model, cpu, on_overflow, model.fresh_state()) {}

  const SequenceState& state() const { return state_; }
  SequenceState take_state() { return std::move(state_); }
  void reset();  // a fresh state, and nothing to read
  void set_state(SequenceState state);  // nothing to read

  // Tokens to be read after those that are still to be read.
  void append(std::span<const int32_t> tokens);
  bool is_reading() const { return read_ < tokens_.size(); }

  // The next tokens, up to a boundary where the state can be scanned, and no more than about `most`;
  // what is wanted after the last.
  SequenceInput next_input(Want after_last, int64_t most = INT64_MAX);
  int64_t next_count(int64_t most = INT64_MAX) const;  // how many they will be
  SequenceInput next_input(Sampler& sampler, kernel::SampledToken& sampled);  // Want::sample
  // After the forward call that had the input. False: the logits are not finite (OnOverflow::end).
  bool take_results(const SequenceInput& input);

  // Reads all that is to be read, by itself; logits() are those after the last token.
  void read(std::span<const int32_t> tokens);
  std::span<const float> logits() const { return logits_.span(); }

  // Called with the message of each overflow that was reset.
  std::function<void(const std::string&)> on_reset = [](const std::string&) {};

  // State files: what belongs to the model is filled in and checked here.
  void save(const fs::path& path, const std::string& model_name, StateStamp stamp) const;
  StateStamp load(const fs::path& path, const std::string& model_name, OtherSane other_sane);

 private:
  bool is_guarded() const { return on_overflow_ != OnOverflow::end; }
  void read_again(const SequenceInput& input);
  void locate_overflow(std::span<const int32_t> tokens, const SequenceInput& input);
  void check_single(const SequenceInput& input);

  const LanguageModel& model_;
  kernel::Cpu cpu_;
  OnOverflow on_overflow_;
  SequenceState state_;
  std::vector<int32_t> tokens_;  // all that was appended since the last was read
  size_t read_ = 0;
  std::optional<SequenceState> before_;  // the state before the pending input, for OnOverflow::stop and reset
  std::optional<SamplerState> drawn_before_;  // the same, where the input may be read again
  Tensor<float> logits_;
};

}  // namespace deltasane
