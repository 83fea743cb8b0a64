// States on a GPU: their largest numbers, and the norms of their heads.
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

// Lets the alpha of each head of one layer follow the norm of its state, as model/adaptive_sane.h
// says. What begins is known by `look`: the first one takes the norms as references and gives every
// head the highest alpha.
struct FollowHeads {
  enum class Look { first, later };
  Look look;
  double too_large, small_again, factor, lowest, highest;
  int64_t sequences, layers, heads;
  double* references;             // (sequences, layer, head)
  float* alphas;                  // the same
  int64_t layer = 0;              // which one
  const float* memory = nullptr;  // its states, (sequences, head, 64, 64)
};
void follow_heads(const FollowHeads& op, const Gpu& gpu);

void fill(float* values, int64_t count, float value, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
