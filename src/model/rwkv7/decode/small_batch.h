// One token of each of up to eight sequences through an RWKV-7 on a GPU, in five kernels per layer.
//
// At one token the matrix products read every weight once and compute little, so what counts is
// that the loads of weights never pause. Each kernel issues its first loads before it waits for the
// kernel in front of it (programmatic dependent launch), and recomputes what is cheap (the norm of
// a row) instead of reading it:
//
//   1  layer norm, token shift, then one product with everything that reads the mixes: r k v and
//      the low-rank down projections of w a v g, with their activations
//   2  a block per head and sequence: low-rank up projections, the inputs of the recurrence, its
//      step with SANE where a chunk ends, group norm, bonus, gate
//   3  output matrix, added to x
//   4  layer norm, token shift, feed-forward key, squared relu
//   5  feed-forward value, added to x
//
// Weight is float or bf16; activations, states and sums are float. Tokens, positions and the
// addresses of the states are read from GPU memory, so that the kernels can be captured in a graph
// once and replayed. token.h does all of it in a single kernel, for one sequence.
#pragma once

#include <cstdint>

#include "base/half.h"
#include "model/rwkv7/decode/layer_weights.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::rwkv7 {

inline constexpr int max_small_batch = 8;  // sequences

// What differs from token to token.
struct DecodeInputs {
  int32_t token[max_small_batch];
  int64_t position[max_small_batch];
  float* state[max_small_batch];  // shift (layer, 2, C), then memory (layer, head, value, key)
};

// (sequences, ...) each, float.
struct DecodeActivations {
  float* x;            // C: the residual stream
  float *u, *tau;      // C: from kernel 1 to kernel 2
  float* in;           // rows_of_in
  float *v_first, *y;  // C
  float* hidden;       // F
};

template <class Weight>
void decode_layer(const LayerWeights<Weight>& weights, const LayerSizes& sizes,
                  const NormEpsilons& eps, int64_t layer, int64_t sequences, const DecodeSane& sane,
                  const DecodeInputs* inputs, const DecodeActivations& activations, const Gpu& gpu);

// logits (sequences, vocabulary) = layer_norm(x) head'
template <class Weight>
void decode_logits(const Weight* head, const float* norm_weight, const float* norm_bias, float eps,
                   int64_t vocabulary, int64_t channels, int64_t sequences, const float* x,
                   float* logits, const Gpu& gpu);

}  // namespace deltasane::rwkv7
