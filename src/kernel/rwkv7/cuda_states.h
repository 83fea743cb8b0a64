// States of several sequences on a GPU, each at a place of its own: what a batch of single tokens
// reads from them and writes to them, their largest numbers and the norms of their heads.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// A state is shift (layer, 2, C), then memory (layer, head, 64, 64).
// shifts: (layer, 2, sequences, C).
struct Shifts {
  float* const* states;  // (sequences), on the GPU
  int64_t sequences, layers, channels;
  float* shifts;
};
void gather_shifts(const Shifts& op, const Gpu& gpu);
void scatter_shifts(const Shifts& op, const Gpu& gpu);

// One token of the recurrence for every sequence. (sequences, head, 64) each; w is the decay.
template <class Real>
struct StatesStep {
  float* const* states;                        // (sequences), on the GPU
  const int64_t* positions;                    // (sequences), on the GPU
  int64_t sequences, heads, memory_at, chunk;  // memory_at: of this layer in a state
  const Real *r, *k, *v, *a, *b;
  const float* w;
  const float* tau;  // (sequences, head), used where a chunk ends; null: no SANE
  Real* y;
};
template <class Real>
void step_states(const StatesStep<Real>& op, const Gpu& gpu);

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
