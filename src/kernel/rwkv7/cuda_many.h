// One token of each of many sequences, whose states lie at places of their own, on a GPU: what
// stands between a layer's matrix products.
#pragma once

#include <cstdint>

#include "kernel/rwkv7/cuda_decode.h"

namespace deltasane::kernel::cuda {

// As NormShift, where the u of the token before is in a sequence's state, and u takes its place.
template <class Real>
struct ShiftStates {
  static constexpr int most_mixes = 7;
  float* const* states;  // (sequences), on the GPU
  int64_t sequences, channels;
  int64_t shift_at;  // in a state
  const float* x;    // (sequences, C)
  const float *weight, *bias;
  float eps;
  int mixes = 0;  // of the time mix 6, and tau's where a chunk ends; of the channel mix 1
  const float* mu[most_mixes] = {};
  Real* out[most_mixes] = {};  // (sequences, C) each
};
template <class Real>
void shift_states(const ShiftStates<Real>& op, const Gpu& gpu);

// The recurrence. (sequences, head, 64) each; w is the decay.
template <class Real>
struct StepStates {
  float* const* states;                        // as above
  const int64_t* positions;                    // (sequences), on the GPU
  int64_t sequences, heads, memory_at, chunk;  // memory_at: of this layer in a state
  const Real *r, *k, *v, *a, *b;
  const float* w;
  const float* tau;  // (sequences, head), used where a chunk ends; null: no SANE
  Real* y;
};
template <class Real>
void step_states(const StepStates<Real>& op, const Gpu& gpu);

// All that is between the products that read the mixes and the one with the output matrix. Heads
// multiply with their rows of the second factors themselves; each sequence reads those again, so
// this is for few of them.
template <class Real>
struct StepHeads {
  static constexpr int64_t most_low = 1024;  // of the sum of ranks
  float* const* states;                      // as above
  const int64_t* positions;
  int64_t sequences;
  LayerWeights<Real> weights;
  LayerSizes sizes;
  int64_t layer, chunk;
  const Real* rkv;   // (3, sequences, C)
  const Real* low;   // the first factors' products, (sequences, rank) each of w a v g, as they are
  Real* v_first;     // (sequences, C): the first layer writes it, the others read it
  const float* tau;  // as above
  Real* y;           // (sequences, C)
};
template <class Real>
void step_heads(const StepHeads<Real>& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
