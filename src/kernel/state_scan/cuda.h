// Scans of recurrent states on a GPU: the largest magnitude, the norms of heads, and the adaptation
// of SANE's alpha to these norms without a copy to the host.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// The largest magnitude of `count` numbers, as bits: NaN is above infinity. 16-byte aligned;
// `largest` is overwritten.
void largest_magnitude(const float* values, int64_t count, int32_t* largest, const Gpu& gpu);

// squares[i]: the sum of the squares of values [i * size, (i + 1) * size), in double and in an
// order that depends on `size` alone.
void sums_of_squares(const float* values, int64_t count, int64_t size, double* squares,
                     const Gpu& gpu);

// Adapts SANE's alpha of each head of one layer to the norm of its state: above too_large times its
// reference, alpha becomes alpha * factor, at least `lowest`; below small_again times the
// reference, alpha / factor, at most `highest` (model/adaptive_sane.h). The first measurement makes
// the norms the references and gives every head the highest alpha.
struct AdaptAlphas {
  static constexpr int64_t head_size = 64;
  enum class Measurement { first, later };
  Measurement measurement;
  double too_large, small_again, factor, lowest, highest;
  int64_t sequences, layers, heads;
  double* references;             // (sequences, layer, head)
  float* alphas;                  // the same
  int64_t layer = 0;              // of `layers`
  const float* memory = nullptr;  // its states, (sequences, head, head_size, head_size)
};
void adapt_alphas(const AdaptAlphas& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
