// Samples tokens from logits. Settings and the order of steps: sampler_settings.h.
//
// Draw number n of a sequence depends on (seed, stream, n) and the logits, and on nothing else: not
// on other sequences, not on how many were sampled before. So any one of many samples can be made
// again alone, by giving it the same stream. A sampler is a value; a copy is independent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernel/sampler/sampler_settings.h"
#include "kernel/sampler/sampler_state.h"
#include "kernel/sampler/sampling_params.h"
#include "kernel/sampler/token_selection.h"

namespace deltasane {

class Sampler {
 public:
  explicit Sampler(const SamplerSettings& settings, uint64_t stream = 0);
  // Continues from a state: seed, stream, draws and counts are the state's.
  Sampler(const SamplerSettings& settings, SamplerState state);

  // Samples the next token and counts it. NaN and +inf are an error that names the token (and the
  // position, if given): nothing is drawn from them, and the sampler stays as it was. So is a
  // vocabulary of which all is banned.
  int32_t next(std::span<const float> logits, std::optional<int64_t> position = std::nullopt);

  // As `next`; but where the logits hold a NaN or +inf, the result names the first such token, and
  // the sampler stays as it was.
  kernel::SampledToken sample(std::span<const float> logits, int64_t position);

  // Sampling on a GPU: the parameters of the next token, with its penalties appended to those of
  // other rows; and accepting the token that was sampled with them, as `next` does.
  kernel::SamplingParams params(std::vector<kernel::TokenPenalty>& penalties) const;
  int32_t accept(const kernel::SampledToken& sampled, int64_t vocabulary,
                 std::optional<int64_t> position = std::nullopt);

  void restore(SamplerState state) { state_ = std::move(state); }  // an earlier one of its own

  const SamplerSettings& settings() const { return settings_; }
  const SamplerState& state() const { return state_; }

 private:
  float penalty(const TokenCount& entry) const;
  std::span<const float> penalised(std::span<const float> logits);
  int32_t counted(int32_t token);
  int32_t draw(std::span<const float> logits, float largest);

  SamplerSettings settings_;
  SamplerState state_;  // counts are kept only while a penalty is in use
  TokenSelection selection_;
  std::vector<float> penalised_;
};

}  // namespace deltasane
