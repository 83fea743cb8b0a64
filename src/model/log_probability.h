// log softmax of single entries, in double: logits of 65,536 entries lose digits in float.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane {

struct TokenLogProbability {
  int32_t token = 0;
  double log_probability = 0;
};

double log_probability(std::span<const float> logits, int32_t token);

// The top.size() likeliest tokens, the likeliest first, of equal ones the lowest id first. Where
// fewer are not banned, the rest of `top` has token -1 and -infinity.
void take_top(std::span<const float> logits, std::span<TokenLogProbability> top);

}  // namespace deltasane
