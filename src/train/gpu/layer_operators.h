// The fused operators of one layer with their arguments, as its way forward and its way back both
// need them.
#pragma once

#include <string>

#include "train/gpu/gpu_pass.h"

namespace deltasane::train::gpu {

inline constexpr float layer_norm_eps = 1e-5f, head_norm_eps = 64e-5f;

inline std::string block_name(int64_t layer) { return cat("blocks.", layer, "."); }

// The norm and the token shifts of the time mix, in the operator's order r w k v a g.
template <class Real>
kernel::cuda::NormShift<Real> time_mix_shift(const GpuPass<Real>& c, int64_t layer, const float* x,
                                             const LayerBuffers<Real>& act) {
  const std::string block = block_name(layer), att = block + "att.";
  kernel::cuda::NormShift<Real> op{
      .rows = c.rows(),
      .x = x,
      .weight = c.w(block + "ln1.weight"),
      .bias = c.w(block + "ln1.bias"),
      .eps = layer_norm_eps,
      .mixes = 6,
      .mu = {c.w(att + "x_r"), c.w(att + "x_w"), c.w(att + "x_k"), c.w(att + "x_v"),
             c.w(att + "x_a"), c.w(att + "x_g")},
      .out = {act.mix_r, act.mix_w, act.mix_k, act.mix_v, act.mix_a, act.mix_g}};
  if (c.size.chunks) {
    op.mu_tau = c.w(att + "x_tau"), op.out_tau = act.x_tau;
    op.away_tau = act.away_tau;
    op.chunk = c.sane->chunk, op.chunks = c.size.chunks;
  }
  return op;
}

template <class Real>
kernel::cuda::NormShift<Real> channel_mix_shift(const GpuPass<Real>& c, int64_t layer,
                                                const LayerBuffers<Real>& act) {
  const std::string block = block_name(layer);
  return {.rows = c.rows(),
          .x = act.x_ffn,
          .weight = c.w(block + "ln2.weight"),
          .bias = c.w(block + "ln2.bias"),
          .eps = layer_norm_eps,
          .mixes = 1,
          .mu = {c.w(block + "ffn.x_k")},
          .out = {act.mix_ffn}};
}

template <class Real>
kernel::cuda::TimeMixInputs<Real> time_mix_inputs(const GpuPass<Real>& c, int64_t layer,
                                                  const LayerBuffers<Real>& act,
                                                  const Real* v_first) {
  const std::string att = block_name(layer) + "att.";
  return {.rows = c.rows(),
          .raw_w = act.raw_w,
          .raw_a = act.raw_a,
          .raw_k = act.raw_k,
          .raw_v = act.raw_v,
          .gate = layer ? act.gate : nullptr,
          .v_first = layer ? v_first : nullptr,
          .w0 = c.w(att + "w0"),
          .a0 = c.w(att + "a0"),
          .v0 = layer ? c.w(att + "v0") : nullptr,
          .k_k = c.w(att + "k_k"),
          .k_a = c.w(att + "k_a"),
          .w = act.w,
          .a = act.a,
          .b = act.b,
          .k = act.k,
          .v = act.v};
}

// From the rows' r, w, k, v, a, b and thresholds to act.read; every sequence from nothing.
template <class Real>
kernel::cuda::DeltaRule<Real> recurrence(const GpuPass<Real>& c, const LayerBuffers<Real>& act) {
  return {.batch = c.size.sequences,
          .time = c.size.time,
          .heads = c.shape().heads,
          .chunk = c.sane ? c.sane->chunk : 16,
          .r = act.r,
          .k = act.k,
          .v = act.v,
          .a = act.a,
          .b = act.b,
          .w = act.w,
          .tau = c.size.chunks ? act.tau : nullptr,
          .y = act.read,
          .states = act.states};
}

template <class Real>
kernel::cuda::TimeMixOutput<Real> time_mix_output(const GpuPass<Real>& c, int64_t layer,
                                                  const LayerBuffers<Real>& act) {
  const std::string att = block_name(layer) + "att.";
  return {.rows = c.rows(),
          .read = act.read,
          .r = act.r,
          .k = act.k,
          .v = act.v,
          .g = act.g,
          .weight = c.w(att + "ln_x.weight"),
          .bias = c.w(att + "ln_x.bias"),
          .r_k = c.w(att + "r_k"),
          .eps = head_norm_eps,
          .y = act.y};
}

}  // namespace deltasane::train::gpu
