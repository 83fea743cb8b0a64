// How the token of one row of logits is to be sampled, and what was sampled: what the sampler hands
// to a device and gets back.
#pragma once

#include <cstdint>

namespace deltasane::kernel {

struct TokenPenalty {
  int32_t token;
  float amount;  // subtracted from its logit
};

// Of the steps in sampler_settings.h.
struct SamplingParams {
  bool greedy = false;                             // the most probable token; nothing else counts
  float scale = 0;                                 // log2(e) / temperature
  float filter_scale = 0;                          // the same, of the temperature that top-p sees
  double top_p = 1;                                // 1: off
  int64_t top_k = 0;                               // 0: off
  double uniform = 0;                              // the random number, in [0, 1)
  int64_t penalties_begin = 0, penalties_end = 0;  // in the penalties of all rows; no token twice
};

struct SampledToken {
  int32_t token = -1;   // -1: none
  int32_t broken = -1;  // the first token whose logit is NaN or +inf; then none is sampled
  float value = 0;      // that logit
};

}  // namespace deltasane::kernel
