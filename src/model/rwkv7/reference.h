// The definition of RWKV-7 with SANE, in float or double: one token at a time, plain loops, every
// number read from the source anew. It is never made faster.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/rwkv7/checkpoint/source.h"

namespace deltasane::reference {

// SANE as the model applies it; alpha 0: none. Without the source's own x_tau and w_tau, w_tau = 0.
struct SaneStrength {
  double alpha = 0;
  int64_t chunk = 16;
};

template <class Real>
struct Rwkv7Result {
  std::vector<Real> logits;  // (tokens, vocabulary)
  std::vector<Real> memory;  // (layer, head, value, key) after the last token
};

// From the beginning of a stream.
template <class Real>
Rwkv7Result<Real> rwkv7(const Rwkv7Source& source, const Rwkv7Shape& shape,
                        const SaneStrength& sane, std::span<const int32_t> tokens);

}  // namespace deltasane::reference
