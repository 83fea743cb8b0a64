// The arguments of GpuTrainingBlock's operators, as forward and backward both need them. For its
// source only.
#pragma once

#include "model/rwkv7/train/gpu/training_block.h"

namespace deltasane::rwkv7::gpu {

template <class Real>
Real* GpuTrainingBlock<Real>::mix(Mix which) const {
  Real* const all[] = {act_.mix_r, act_.mix_w, act_.mix_k, act_.mix_v, act_.mix_a, act_.mix_g};
  return all[size_t(which)];
}

template <class Real>
Real* GpuTrainingBlock<Real>::low(const LowRank& pair) const {
  Real* const all[] = {act_.low_w, act_.low_a, act_.low_g, act_.low_v};
  return all[pair.name];
}

template <class Real>
kernel::cuda::NormShift<Real> GpuTrainingBlock<Real>::time_mix_shift() const {
  kernel::cuda::NormShift<Real> op{.rows = c_.rows(),
                                   .x = x_,
                                   .weight = c_.w(l_.ln1.weight),
                                   .bias = c_.w(l_.ln1.bias),
                                   .eps = c_.shape.norms.layer_eps,
                                   .present = c_.present};
  for (const Slot mu : l_.mu)
    op.mu[op.mixes] = c_.w(mu), op.out[op.mixes] = mix(Mix(op.mixes)), ++op.mixes;
  if (c_.size.chunks) {
    op.mu_tau = c_.w(l_.x_tau), op.out_tau = act_.x_tau;
    op.away_tau = act_.away_tau;
    op.chunk = c_.sane->chunk, op.chunks = c_.size.chunks;
  }
  return op;
}

template <class Real>
kernel::cuda::NormShift<Real> GpuTrainingBlock<Real>::channel_mix_shift() const {
  return {.rows = c_.rows(),
          .x = act_.x_ffn,
          .weight = c_.w(l_.ln2.weight),
          .bias = c_.w(l_.ln2.bias),
          .eps = c_.shape.norms.layer_eps,
          .present = c_.present,
          .mixes = 1,
          .mu = {c_.w(l_.ffn_mu)},
          .out = {act_.mix_ffn}};
}

template <class Real>
kernel::cuda::TimeMixInputs<Real> GpuTrainingBlock<Real>::inputs() const {
  return {.rows = c_.rows(),
          .raw_w = act_.raw_w,
          .raw_a = act_.raw_a,
          .raw_k = act_.raw_k,
          .raw_v = act_.raw_v,
          .gate = is_first_ ? nullptr : act_.gate,
          .v_first = is_first_ ? nullptr : v_first_,
          .w0 = c_.w(l_.w0),
          .a0 = c_.w(l_.a0),
          .v0 = is_first_ ? nullptr : c_.w(l_.v0),
          .k_k = c_.w(l_.k_k),
          .k_a = c_.w(l_.k_a),
          .w = act_.w,
          .a = act_.a,
          .b = act_.b,
          .k = act_.k,
          .v = act_.v,
          .key_norm = c_.shape.norms.key};
}

// Every sequence from an empty state.
template <class Real>
kernel::cuda::DeltaRule<Real> GpuTrainingBlock<Real>::delta_rule() const {
  return {.batch = c_.size.sequences,
          .time = c_.size.time,
          .heads = c_.shape.heads,
          .chunk = c_.sane ? c_.sane->chunk : 16,
          .r = act_.r,
          .k = act_.k,
          .v = act_.v,
          .a = act_.a,
          .b = act_.b,
          .w = act_.w,
          .tau = c_.size.chunks ? act_.tau : nullptr,
          .y = act_.read,
          .states = act_.states};
}

template <class Real>
kernel::cuda::TimeMixOutput<Real> GpuTrainingBlock<Real>::output() const {
  return {.rows = c_.rows(),
          .read = act_.read,
          .r = act_.r,
          .k = act_.k,
          .v = act_.v,
          .g = act_.g,
          .weight = c_.w(l_.ln_x.weight),
          .bias = c_.w(l_.ln_x.bias),
          .r_k = c_.w(l_.r_k),
          .eps = c_.shape.norms.group_eps,
          .y = act_.y};
}

}  // namespace deltasane::rwkv7::gpu
