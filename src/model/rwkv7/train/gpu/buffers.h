// What one layer keeps of its forward pass for its backward pass on a GPU, and what all layers
// share.
//
// (rows, channels) each, unless said otherwise; rows are the tokens of all sequences. Real is the
// type of what matrix products read and write. The token-shift mixes are kept: they cost less
// memory than the other activations, and making them again a pass over the rows.
#pragma once

#include <algorithm>

#include "kernel/delta_rule/cuda.h"
#include "kernel/time_mix/cuda.h"
#include "kernel/token_shift/cuda.h"
#include "model/gpu/memory_plan.h"
#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/train/gpu/training_pass.h"

namespace deltasane::rwkv7::gpu {

template <class Real>
struct LayerBuffers {
  float* x_ffn;                 // what the channel mix is added to
  Real *mix_r, *mix_k, *mix_v;  // side by side, for three products at once
  Real *mix_w, *mix_a, *mix_g;
  Real *r, *raw_k, *raw_v;  // side by side
  float *raw_w, *w;         // before and after time_mix_inputs
  float* states;            // the recurrence's, for its gradient (delta_rule_states)
  Real *raw_a, *k, *v, *a, *b, *g;
  Real *gate, *low_v;  // not in the first layer; low_*: (rows, rank)
  Real *low_w, *low_a, *low_g;
  Real *read, *y;          // the recurrence's output; after time_mix_output
  Real *x_tau, *away_tau;  // (sequences, chunks, C): SANE
  float *z, *tau,
      *dz;  // (sequences, chunks, H); dz: of the backward pass, for tau_weights_backward
  Real *mix_ffn, *hidden;  // hidden: (rows, feed_forward), after the activation

  enum class Layer { first, later };
  void place(MemoryPlan& plan, const Rwkv7Shape& s, const GpuBatchSize& size, Layer layer) {
    const int64_t rows = size.rows(), all = rows * s.channels;
    plan.place(x_ffn, all);
    plan.place(mix_r, 3 * all), mix_k = mix_r + all, mix_v = mix_k + all;
    plan.place(r, 3 * all), raw_k = r + all, raw_v = raw_k + all;
    for (float** one : {&raw_w, &w}) plan.place(*one, all);
    plan.place(states, kernel::cuda::delta_rule_states(size.sequences, size.time, s.heads));
    for (Real** one : {&mix_w, &mix_a, &mix_g, &raw_a, &k, &v, &a, &b, &g, &read, &y, &mix_ffn})
      plan.place(*one, all);
    plan.place(low_w, rows * s.rank_w), plan.place(low_a, rows * s.rank_a);
    plan.place(low_g, rows * s.rank_g);
    gate = low_v = nullptr;
    if (layer == Layer::later) plan.place(gate, all), plan.place(low_v, rows * s.rank_v);
    const int64_t ends = size.ends();
    plan.place(x_tau, ends * s.channels), plan.place(away_tau, ends * s.channels);
    for (float** one : {&z, &tau, &dz}) plan.place(*one, ends * s.heads);
    plan.place(hidden, rows * s.feed_forward);
  }
};

// Gradients of the backward pass. A buffer that is free takes another gradient; see
// training_block.cpp.
template <class Real>
struct BackwardBuffers {
  Real* dresult;       // the residual stream's gradient, rounded; not used where Real is float
  Real *dr, *dk, *dv;  // side by side
  Real *sr, *sk, *sv;  // the recurrence's part of them; then of the mixes
  Real *dy, *da, *db, *dg, *dgate, *dw_real;
  float *dw, *dbonus;  // dbonus: (rows, H)
  Real* dhidden;       // (rows, feed_forward)
  Real* dlow;          // (rows, largest rank)
  Real* dx_tau;        // (sequences, chunks, C)
  float* dtau;         // (sequences, chunks, H)
  float* sums;         // for the operators' sums over rows

  void place(MemoryPlan& plan, const Rwkv7Shape& s, const GpuBatchSize& size) {
    const int64_t rows = size.rows(), all = rows * s.channels;
    plan.place(dr, 3 * all), dk = dr + all, dv = dk + all;
    plan.place(sr, 3 * all), sk = sr + all, sv = sk + all;
    for (Real** one : {&dresult, &dy, &da, &db, &dg, &dgate, &dw_real}) plan.place(*one, all);
    plan.place(dw, all), plan.place(dbonus, rows * s.heads);
    plan.place(dhidden, rows * s.feed_forward);
    plan.place(dlow, rows * std::max({s.rank_w, s.rank_a, s.rank_v, s.rank_g}));
    const int64_t ends = size.ends();
    plan.place(dx_tau, ends * s.channels);
    plan.place(dtau, ends * s.heads);
    const kernel::cuda::RowBlock block{size.sequences, size.time, s.channels};
    plan.place(sums, std::max(kernel::cuda::norm_shift_scratch(block),
                              kernel::cuda::time_mix_scratch(block)));
  }
};

}  // namespace deltasane::rwkv7::gpu
