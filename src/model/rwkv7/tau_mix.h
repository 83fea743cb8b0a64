// The mix that SANE's tau is made of (kernel/sane), on the CPU: of the tokens of one sequence that
// end a chunk,
//
//     x = u + (u of the token before - u) mu
#pragma once

#include <cstdint>

#include "tensor/view.h"

namespace deltasane::rwkv7 {

struct TauMix {
  View<const float> u;    // (time, C)
  const float* before;    // (C), the u before the first token
  const float* mu;        // (C), x_tau
  int64_t first, chunk;   // the tokens first, first + chunk, ..., as many as `out` has rows
  View<float> out;        // (chunks, C)
};
void tau_mix(const TauMix& op);

}  // namespace deltasane::rwkv7
