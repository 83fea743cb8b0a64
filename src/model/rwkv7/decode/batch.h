// One token of each of a batch of sequences on a GPU, each with a state at an address of its own:
// what a layer does between its matrix products. Real is float or bf16; states and parameters are
// float.
#pragma once

#include <cstdint>

#include "model/rwkv7/decode/layer_weights.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::rwkv7 {

// As kernel::cuda::NormShift, where the u of the token before is in a sequence's state, and is
// replaced by u. The kernel before this one in the stream writes x or parts, and nothing else that this
// reads.
template <class Real>
struct ShiftStates {
  static constexpr int most_mixes = 7, most_parts = 4;
  float* const* states;  // (sequences), on the GPU
  int64_t sequences, channels;
  int64_t shift_at;  // in a state
  float* x;          // (sequences, C)
  const float *weight, *bias;
  float eps;
  // (added, sequences, C): sums of a product that x lacks and takes first, at most most_parts.
  const float* parts = nullptr;
  int added = 0;
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

// The low-rank up projections of a batch, (sequences, C) each; gate is not read in the first layer.
template <class Real>
struct UpProjections {
  const float* w = nullptr;
  const Real *a = nullptr, *gate = nullptr, *g = nullptr;
};

// Everything between the products that read the mixes and the one with the output matrix. Without
// `up`, heads compute the low-rank up projections themselves, and each sequence reads these weights
// again: for small batches.
template <class Real>
struct StepHeads {
  static constexpr int64_t most_low = 1024;  // sum of the ranks
  float* const* states;                      // as above
  const int64_t* positions;
  int64_t sequences;
  LayerWeights<Real> weights;
  LayerSizes sizes;
  int64_t layer, chunk;
  float group_norm_eps;
  const Real* rkv;   // (3, sequences, C)
  const Real* low;   // down projections, (sequences, rank) each of w a v g, before activations;
                     // not read where there is `up`
  Real* v_first;     // (sequences, C): written by the first layer, read by the others
  const float* tau;  // as above
  Real* y;           // (sequences, C)
  UpProjections<Real> up = {};
};
// With `up`, the launch begins, with loads of the states, while the kernel before it in the stream
// still runs, which writes rkv or up and nothing else that this reads or writes.
template <class Real>
void step_heads(const StepHeads<Real>& op, const Gpu& gpu);

}  // namespace deltasane::rwkv7
