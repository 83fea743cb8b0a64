// Picks a token from each row of logits, on a GPU: the steps of infer/sampler_settings.h, in that
// order, for a random number that is given. See README.md.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct TokenPenalty {
  int32_t token;
  float amount;  // taken from its logit
};

// How a row's token is picked.
struct Picking {
  bool greedy = false;       // the most probable one, and nothing else counts
  float scale = 0;           // log2(e) / temperature
  float filter_scale = 0;    // the same, of the temperature that top-p sees
  double top_p = 1;          // 1: off
  int64_t top_k = 0;         // 0: off
  double uniform = 0;        // in [0, 1)
  int64_t from = 0, to = 0;  // its part of the penalties, no token twice
};

struct Picked {
  int32_t token = -1;   // -1: none could be
  int32_t broken = -1;  // the first token whose logit is NaN or +inf; then none is picked
  float value = 0;      // that logit
};

// logits (rows, vocabulary): penalties are taken from them in place.
struct PickTokens {
  int64_t rows, vocabulary;
  float* logits;
  const Picking* picking;         // (rows)
  const TokenPenalty* penalties;  // of all rows
  Picked* picked;                 // (rows)
};
void pick_tokens(const PickTokens& op, const Gpu& gpu);

// The same for one row, by several blocks. `penalties` and `picked` may be pinned memory of the
// host: a token then takes one launch and no copy.
struct PickToken {
  int64_t vocabulary;
  float* logits;
  Picking picking;
  const TokenPenalty* penalties;
  Picked* picked;
};
void pick_token(const PickToken& op, const Gpu& gpu);

// The same steps for one row on the host, by one thread and slowly: for tests.
Picked pick_by_one_thread(std::span<float> logits, const Picking& picking,
                          std::span<const TokenPenalty> penalties);

}  // namespace deltasane::kernel::cuda
