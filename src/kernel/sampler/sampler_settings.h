// How a token is sampled from logits. The steps, in this order:
//
//   1. penalties    logit[t] -= presence + frequency * count[t], for every t sampled before
//   2. softmax      over the whole vocabulary, of logits / temperature
//   3. top-k        the k most probable tokens
//   4. top-p        of these, the fewest most probable ones that together reach p, at least one;
//                   probabilities are those of step 2, so a top-k that holds less than p stays
//                   whole
//   5. draw         in proportion to their probabilities
//
// Of equally probable tokens the lowest id comes first, everywhere. Temperature 0 takes the most
// probable token (greedy). A logit of -inf bans its token.
//
// Temperature comes before top-p because then temperature means one thing, the distribution, and
// top-p cuts the tail that this distribution has: at a high temperature it keeps more tokens, at a
// low one fewer. Some programs filter at temperature 1 and then raise what is left to the power
// 1/T; TemperatureOrder::after_filters does that. At temperature 1 both are the same.
#pragma once

#include <cstdint>

namespace deltasane {

enum class TemperatureOrder { before_filters, after_filters };

struct SamplerSettings {
  double temperature = 1.0;                            // 0, or 0.001 to 1000
  double top_p = 0.8;                                  // 0 to 1; 1: off
  int64_t top_k = 20;                                  // 0: off
  double presence_penalty = 0, frequency_penalty = 0;  // -1000 to 1000
  double penalty_decay = 0.996;  // 0 to 1: what counts are multiplied by after each token
  uint64_t seed = 0;
  TemperatureOrder temperature_order = TemperatureOrder::before_filters;
};

void validate(const SamplerSettings& settings);  // fails, and says what was expected and found

}  // namespace deltasane
