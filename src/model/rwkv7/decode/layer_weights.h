// A layer as the fused single-token kernels read it: the addresses of its weights, its sizes, SANE.
#pragma once

#include <cstdint>

namespace deltasane::rwkv7 {

// Vectors (C), matrices (out, in). Weight is float or bf16.
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

// Ranks and feed_forward are multiples of 32, zero-padded; w and a share a rank.
struct LayerSizes {
  int64_t layers, channels, heads, feed_forward, rank_wa, rank_v, rank_g;

  int64_t low(bool first) const { return 2 * rank_wa + (first ? 0 : rank_v) + rank_g; }
  int64_t rows_of_in(bool first) const { return 3 * channels + low(first); }
  int64_t shift_at(int64_t layer, int64_t which) const { return (layer * 2 + which) * channels; }
  int64_t memory_at(int64_t layer) const { return (layers * 2 + layer * 64) * channels; }
};

// Of the layer norms, and of the group norm behind the recurrence.
struct NormEpsilons {
  float layer, group;
};

struct DecodeSane {
  enum class Kind { none, constant, trained } kind = Kind::none;
  float alpha = 0, constant = 0;  // constant: tau itself
  int64_t chunk = 16;
};

}  // namespace deltasane::rwkv7
