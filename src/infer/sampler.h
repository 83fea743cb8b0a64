// Picks tokens from logits. Settings and the order of steps: sampler_settings.h.
//
// Draw number n of a sequence depends on (seed, stream, n) and the logits, and on nothing else: not
// on other sequences, not on how many were sampled before. So any one of many samples can be made
// again alone, by giving it the same stream. A sampler is a value; a copy goes its own way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "infer/sampler_settings.h"
#include "infer/sampler_state.h"
#include "infer/token_selection.h"
#include "kernel/sampler/cuda.h"

namespace deltasane {

class Sampler {
 public:
  explicit Sampler(const SamplerSettings& settings, uint64_t stream = 0);
  // Goes on from a state: seed, stream, draws and counts are the state's.
  Sampler(const SamplerSettings& settings, SamplerState state);

  // Picks the next token and counts it. NaN and +inf are an error that names the token (and the
  // position, if given): nothing is drawn from them, and the sampler stays as it was. So is a
  // vocabulary of which all is banned.
  int32_t next(std::span<const float> logits, std::optional<int64_t> position = std::nullopt);

  // None, and the sampler stays as it was, where the logits hold a NaN or +inf.
  std::optional<int32_t> next_if_finite(std::span<const float> logits, int64_t position);

  // Where a GPU picks (kernel/sampler/README.md): how the next token is to be picked, with the
  // penalties put behind those that are there; and taking what was picked so, as `next` does.
  kernel::cuda::Picking picking(std::vector<kernel::cuda::TokenPenalty>& penalties) const;
  int32_t take(const kernel::cuda::Picked& picked, int64_t vocabulary,
               std::optional<int64_t> position = std::nullopt);

  const SamplerSettings& settings() const { return settings_; }
  const SamplerState& state() const { return state_; }

 private:
  float penalty(const TokenCount& entry) const;
  std::span<const float> penalised(std::span<const float> logits);
  int32_t counted(int32_t token);
  int32_t pick(std::span<const float> logits, float largest);

  SamplerSettings settings_;
  SamplerState state_;  // counts are kept only while a penalty is in use
  TokenSelection selection_;
  std::vector<float> penalised_;
};

}  // namespace deltasane
