// Which tokens may be sampled, and with what probability: steps 2 to 5 of sampler_settings.h.
//
// Few tokens are kept as a list; a nucleus too large for that is kept as weights over the whole
// vocabulary, found without sorting it. Buffers are reused from call to call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/sampler/sampler_settings.h"

namespace deltasane {

struct TokenLogit {
  int32_t token;
  float logit;
};

// The `count` largest logits, largest first, of equal ones the lowest token first; fewer where
// tokens are banned. One pass over the logits.
std::vector<TokenLogit> largest_logits(std::span<const float> logits, int64_t count);

struct TokenProbability {
  int32_t token;
  double probability;
};

class TokenSelection {
 public:
  // largest: that of the logits, finite. The temperature is not 0.
  void select(std::span<const float> logits, float largest, const SamplerSettings& settings);

  int32_t draw(double uniform) const;                   // uniform: in [0, 1)
  std::vector<TokenProbability> probabilities() const;  // of the tokens kept; the sum is 1

 private:
  bool cut_list(double needed);
  void select_nucleus(std::span<const float> logits, float largest, double temperature,
                      double needed);
  void temper(std::span<const float> logits, float largest, double temperature);

  std::vector<TokenLogit> list_;  // most probable first; empty: weights_ has all tokens
  std::vector<float> weights_;    // of the list, or of all tokens, 0 where not kept
};

}  // namespace deltasane
