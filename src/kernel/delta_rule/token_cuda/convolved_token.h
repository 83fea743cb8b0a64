// One token of each of some sequences through the middle of a recurrent layer on a GPU, in one kernel:
// from the products with the layer's input to what the output norm reads.
//
//     q k v = silu(conv(x))      q, k of length 1, q times K^-1/2
//     g = -rate softplus(z + bias), or bound sigmoid(rate (z + bias))     beta = scale sigmoid(z_beta)
//     y = the rule's, and the state is carried on, with SANE where a chunk ends
//
// x and z are in rows of one matrix. The states' inputs of the convolution are read, and left as they
// are (KeptInputs of kernel/matmul/few_rows/product.h). token_rule.h, kernel/short_conv/cuda.h,
// kernel/norm/rms_cuda.h and kernel/decay/cuda.h do the same one after the other. Everything is float.
#pragma once

#include "kernel/delta_rule/delta_rule.h"
#include "kernel/rows/ragged_rows.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

struct ConvolvedToken {
  Rule rule = Rule::gated_deltanet;  // deltanet or gated_deltanet
  RaggedRows rows;                   // of one row each
  int64_t key_heads = 0, heads = 0;  // heads: a multiple of key_heads
  int64_t keys = 0, values = 0;      // keys: up to 256
  const float* in = nullptr;         // (rows, ...): x first
  int64_t step = 0;                  // from row to row of in
  // Columns of in, (heads) each; below 0: none.
  int64_t beta_at = -1, decay_at = -1, tau_at = -1;
  const float* convolution = nullptr;  // (taps, channels)
  int64_t taps = 1, inputs_at = 0;     // in a sequence's state
  float l2_eps = 0;
  const float *rate = nullptr, *bias = nullptr;  // (heads)
  float bound = 0, beta_scale = 1;
  // SANE: alpha with tau_at, or one tau for all; both 0: none.
  float alpha = 0, tau = 0;
  int64_t chunk = 16;
  int64_t state_at = 0;  // of (head, value, key) in a sequence's state
  float* y = nullptr;    // (rows, head, value)
};
void convolved_token(const ConvolvedToken& op, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
