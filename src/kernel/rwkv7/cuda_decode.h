// One token of each of a few sequences through an RWKV-7 on a GPU: in five kernels per layer, or,
// of one sequence, in a single kernel (decode_token).
//
// At one token the products read every weight once and compute little, so what counts is that
// weights arrive without a pause. Each kernel asks for its weights before it waits for the kernel
// in front of it, and makes again what is cheap (the norm of a row) instead of reading it:
//
//   1  layer norm, shift, then one product with everything that reads the mixes: r k v and the
//      first factors of w a v g, with their activations
//   2  a block per head and sequence: second factors, the inputs of the recurrence, its step with
//      SANE where a chunk ends, group norm, bonus, gate
//   3  output matrix, added to x
//   4  layer norm, shift, feed-forward key, squared relu
//   5  feed-forward value, added to x
//
// Weight is float or bf16; activations, states and sums are float. Which tokens, where each
// sequence stands and where its state lies is read from the GPU's memory, so that the five kernels
// can be recorded once and repeated; the single one is told as it is launched.
#pragma once

#include <cstdint>
#include <optional>

#include "base/half.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

inline constexpr int most_decoded = 8;  // sequences

// What differs from token to token.
struct DecodeInputs {
  int32_t token[most_decoded];
  int64_t position[most_decoded];
  float* state[most_decoded];  // shift (layer, 2, C), then memory (layer, head, value, key)
};

// Where a layer's weights lie: vectors (C), matrices (out, in).
template <class Weight>
struct LayerWeights {
  const float *ln1_weight, *ln1_bias, *ln2_weight, *ln2_bias, *ln_x_weight, *ln_x_bias;
  const float *x_r, *x_w, *x_k, *x_v, *x_a, *x_g, *ffn_x_k;
  const float *w0, *a0, *v0, *k_k, *k_a, *r_k;
  const float* x_tau = nullptr;                // trained SANE only
  const Weight* w_tau = nullptr;               // (head, C)
  const Weight* in;                            // (rows_of_in, C): r k v, then w a v g down
  const Weight *up_w, *up_a, *up_v, *up_g;     // (C, rank); up_v: null in the first layer
  const Weight *output, *ffn_key, *ffn_value;  // (C, C), (F, C), (C, F)
};

// Ranks and feed_forward are multiples of 32, filled up with zeros; w and a share a rank.
struct LayerSizes {
  int64_t layers, channels, heads, feed_forward, rank_wa, rank_v, rank_g;

  int64_t low(bool first) const { return 2 * rank_wa + (first ? 0 : rank_v) + rank_g; }
  int64_t rows_of_in(bool first) const { return 3 * channels + low(first); }
  int64_t shift_at(int64_t layer, int64_t which) const { return (layer * 2 + which) * channels; }
  int64_t memory_at(int64_t layer) const { return (layers * 2 + layer * 64) * channels; }
};

struct DecodeSane {
  enum class Kind { none, constant, trained } kind = Kind::none;
  float alpha = 0, constant = 0;  // tau itself, where it is constant
  int64_t chunk = 16;
};

// (sequences, ...) each, float.
struct DecodeActivations {
  float* x;            // C: the residual stream
  float *u, *tau;      // C: what kernel 1 leaves for kernel 2
  float* in;           // rows_of_in
  float *v_first, *y;  // C
  float* hidden;       // F
};

template <class Weight>
void decode_layer(const LayerWeights<Weight>& weights, const LayerSizes& sizes, int64_t layer,
                  int64_t sequences, const DecodeSane& sane, const DecodeInputs* inputs,
                  const DecodeActivations& activations, const Gpu& gpu);

// logits (sequences, vocabulary) = layer_norm(x) head'
template <class Weight>
void decode_logits(const Weight* head, const float* norm_weight, const float* norm_bias,
                   int64_t vocabulary, int64_t channels, int64_t sequences, const float* x,
                   float* logits, const Gpu& gpu);

// All of a token of one sequence, from its embedding to the logits, in one kernel that has every
// multiprocessor for itself: all of its blocks run at the same time.
template <class Weight>
struct TokenWeights {
  const LayerWeights<Weight>* layers;            // on the GPU
  const Weight* embedding;                       // (vocabulary, C)
  const float *embedding_gain, *embedding_bias;  // of its norm; null: none
  const float *norm_weight, *norm_bias;
  const Weight* head;  // (vocabulary, C)
  int64_t vocabulary;
};
// What differs from token to token, as DecodeInputs; `before`: how many tokens there were since the
// numbers that blocks hand to each other were 0.
struct NextToken {
  int32_t token;
  uint32_t before;
  int64_t position;
  float* state;
};
// How a block's shared memory is divided: found once, used for every token.
struct TokenRoom {
  int64_t area, own_rows;  // floats
  int64_t bytes;           // of all
};
// None where the GPU has not shared memory enough, a block for each head, or work for each block.
template <class Weight>
std::optional<TokenRoom> room_for_token(const LayerSizes& sizes, const Gpu& gpu);
// What blocks hand to each other: floats, 0 before the first token and then left alone.
inline int64_t handed_numbers(const LayerSizes& s) {
  return 2 * s.channels + s.rows_of_in(true) + s.rows_of_in(false) + s.feed_forward;
}
template <class Weight>
void decode_token(const TokenWeights<Weight>& weights, const LayerSizes& sizes,
                  const TokenRoom& room, const DecodeSane& sane, const NextToken& next,
                  float* handed, float* logits, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
