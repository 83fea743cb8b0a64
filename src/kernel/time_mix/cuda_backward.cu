// The gradients of time_mix_inputs and time_mix_output: a block has whole rows, many of them one
// after the other, with the sums of parameters' gradients in registers.
#include <algorithm>

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/partial_sums.cuh"
#include "kernel/time_mix/cuda.h"
#include "kernel/time_mix/cuda_decay.cuh"
#include "kernel/time_mix/cuda_head.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int input_sets = 5, output_sets = 3;

template <class Real, bool gated, int most_threads, int blocks>
__global__ void __launch_bounds__(most_threads, blocks)
    inputs_backward_rows(const __grid_constant__ TimeMixInputsGradient<Real> g,
                         int64_t rows_per_block) {
  const TimeMixInputs<Real>& op = g.op;
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t begin = blockIdx.x * rows_per_block;
  const int64_t end = min(op.rows.sequences * op.rows.time, begin + rows_per_block);
  float dw0[octet] = {}, da0[octet] = {}, dv0[octet] = {}, dk_k[octet] = {}, dk_a[octet] = {};
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * channels + c;
    // All loads are issued before anything is computed; w and v stay packed.
    Packed<float> raw_w, dw, dv_first;
    Packed<Real> r, dr, raw_v, gate, v_first, dv, dv_bonus;
    float dbonus = 0;
    float k[octet] = {}, rate[octet] = {}, da[octet] = {}, db[octet] = {}, dk[octet] = {};
    float k_k[octet] = {}, k_a[octet] = {};
    if (mine) {
      float a0[octet];
      load(op.raw_k + at, k);
      load(op.raw_a + at, rate);
      load(g.da + at, da);
      load(g.db + at, db);
      load(g.dk + at, dk);
      raw_w = Packed<float>(op.raw_w + at);
      dw = Packed<float>(g.dw + at);
      r = Packed<Real>(g.r + at), dr = Packed<Real>(g.dr + at);
      dv = Packed<Real>(g.dv + at), dv_bonus = Packed<Real>(g.dv_bonus + at);
      dbonus = g.dbonus[at / head_channels];
      if (gated) {
        raw_v = Packed<Real>(op.raw_v + at);
        gate = Packed<Real>(op.gate + at);
        v_first = Packed<Real>(op.v_first + at);
        dv_first = Packed<float>(g.dv_first + at);
      }
      load(op.k_k + c, k_k);
      load(op.k_a + c, k_a);
      load(op.a0 + c, a0);
#pragma unroll
      for (int i = 0; i < octet; ++i) rate[i] = sigmoid(a0[i] + rate[i]);
      float x[octet], d[octet], r_k[octet];
      r.unpack(x);
      dr.unpack(d);
      load(g.r_k + c, r_k);
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        dk[i] += dbonus * x[i] * r_k[i];
        d[i] += dbonus * k[i] * (1.0f + (rate[i] - 1.0f) * k_a[i]) * r_k[i];
      }
      store(g.draw_r + at, d);
    }
    const Direction direction(k, k_k, op.key_norm);
    float along = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i)
      along += k[i] * k_k[i] * direction.inverse * (db[i] * rate[i] - da[i]);
    along = head_sum(along);
    if (direction.shorter) along = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      const float kappa = k[i] * k_k[i] * direction.inverse;
      const float dkappa = db[i] * rate[i] - da[i];
      const float drate = db[i] * kappa + dk[i] * k[i] * k_a[i];
      const float ddirection = (dkappa - kappa * along) * direction.inverse;
      dk_a[i] += dk[i] * k[i] * (rate[i] - 1.0f);
      dk_k[i] += ddirection * k[i];
      dk[i] = dk[i] * (1.0f + (rate[i] - 1.0f) * k_a[i]) + ddirection * k_k[i];
      da[i] = drate * rate[i] * (1.0f - rate[i]);
      da0[i] += da[i];
    }
    if (!mine) continue;
    store(g.draw_k + at, dk);
    store(g.draw_a + at, da);

    float x[octet], d[octet], bias[octet];
    raw_w.unpack(x);
    dw.unpack(d);
    load(op.w0 + c, bias);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      const float omega = sigmoid(bias[i] + x[i]);
      d[i] *= -decay_rate * decay_of(omega) * omega * (1.0f - omega);
      dw0[i] += d[i];
    }
    store(g.draw_w + at, d);

    dv.unpack(d);
    dv_bonus.unpack(x);
#pragma unroll
    for (int i = 0; i < octet; ++i) d[i] += x[i];
    if (gated) {
      float v[octet], first[octet], dfirst[octet], dgate[octet];
      gate.unpack(x);
      raw_v.unpack(v);
      v_first.unpack(first);
      dv_first.unpack(dfirst);
      load(op.v0 + c, bias);
#pragma unroll
      for (int i = 0; i < octet; ++i) {
        const float share = sigmoid(bias[i] + x[i]);
        dgate[i] = d[i] * (first[i] - v[i]) * share * (1.0f - share);
        dv0[i] += dgate[i];
        dfirst[i] += d[i] * share;
        d[i] *= 1.0f - share;
      }
      store(g.dgate + at, dgate);
      store(g.dv_first + at, dfirst);
    }
    store(g.draw_v + at, d);
  }
  if (!mine) return;
  constexpr int sets = gated ? input_sets : input_sets - 1;
  store_partial(g.scratch, sets, 0, channels, c, dw0);
  store_partial(g.scratch, sets, 1, channels, c, da0);
  store_partial(g.scratch, sets, 2, channels, c, dk_k);
  store_partial(g.scratch, sets, 3, channels, c, dk_a);
  if (gated) store_partial(g.scratch, sets, 4, channels, c, dv0);
}

template <class Real, int most_threads>
__global__ void __launch_bounds__(most_threads)
    output_backward_rows(const __grid_constant__ TimeMixOutputGradient<Real> g,
                         int64_t rows_per_block) {
  const TimeMixOutput<Real>& op = g.op;
  const int channels = int(op.rows.channels), c = int(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t begin = blockIdx.x * rows_per_block;
  const int64_t end = min(op.rows.sequences * op.rows.time, begin + rows_per_block);
  float weight[octet] = {}, bias[octet] = {}, r_k[octet] = {};
  float dweight[octet] = {}, dbias[octet] = {}, dr_k[octet] = {};
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
    load(op.r_k + c, r_k);
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * channels + c;
    float y[octet] = {}, r[octet] = {}, k[octet] = {}, v[octet] = {}, gate[octet] = {};
    float d[octet] = {};
    if (mine) {
      load(op.read + at, y);
      load(op.r + at, r);
      load(op.k + at, k);
      load(op.v + at, v);
      load(op.g + at, gate);
      load(g.dy + at, d);
    }
    const HeadMoments n(y, op.eps);
    float bonus = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) bonus += r[i] * k[i] * r_k[i];
    bonus = head_sum(bonus);
    float dbonus = 0, mean = 0, along = 0, x[octet];
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      y[i] = n(y[i]);  // from here on normalized
      x[i] = d[i] * (y[i] * weight[i] + bias[i] + bonus * v[i]);
      d[i] *= gate[i];
      dbonus += d[i] * v[i];
      mean += d[i] * weight[i];
      along += d[i] * weight[i] * y[i];
      v[i] = bonus * d[i];
      dweight[i] += d[i] * y[i];
      dbias[i] += d[i];
    }
    dbonus = head_sum(dbonus);
    mean = head_sum(mean) / head_channels;
    along = head_sum(along) / head_channels;
    if (!mine) continue;
    store(g.dg + at, x);
    store(g.dv_bonus + at, v);
    if (c % head_channels == 0) g.dbonus[at / head_channels] = dbonus;
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      d[i] = n.scale * (d[i] * weight[i] - mean - y[i] * along);
      dr_k[i] += dbonus * r[i] * k[i];
    }
    store(g.dread + at, d);
  }
  if (!mine) return;
  store_partial(g.scratch, output_sets, 0, channels, c, dweight);
  store_partial(g.scratch, output_sets, 1, channels, c, dbias);
  store_partial(g.scratch, output_sets, 2, channels, c, dr_k);
}

// Resident blocks per multiprocessor, where a row has up to 1024 channels.
constexpr int for_inputs = 3, for_output = 4;

struct RowPartition {
  int64_t rows, blocks;  // rows: of a block
  RowPartition(const RowBlock& of, int on_each)
      : rows(std::max<int64_t>(1, rows_per_block(of.rows(), blocks_with_partials(on_each)))),
        blocks((of.rows() + rows - 1) / rows) {}
};

template <class Real, bool gated>
void run_inputs(const TimeMixInputsGradient<Real>& g, const RowPartition& partition,
                const Gpu& gpu) {
  const unsigned threads = threads_of_row(g.op.rows.channels);
  launch(threads <= 128   ? inputs_backward_rows<Real, gated, 128, for_inputs>
         : threads <= 256 ? inputs_backward_rows<Real, gated, 256, 1>
                          : inputs_backward_rows<Real, gated, 1024, 1>,
         {unsigned(partition.blocks), threads}, gpu, g, partition.rows);
}

}  // namespace

int64_t time_mix_scratch(const RowBlock& rows) {
  return std::max(RowPartition(rows, for_inputs).blocks * input_sets,
                  RowPartition(rows, for_output).blocks * output_sets) *
         rows.channels;
}

template <class Real>
void time_mix_inputs_backward(const TimeMixInputsGradient<Real>& g, const Gpu& gpu) {
  const TimeMixInputs<Real>& op = g.op;
  if (op.rows.rows() == 0) return;
  const bool gated = op.gate != nullptr;
  require(gated == (op.v_first != nullptr) && gated == (g.dgate != nullptr) &&
              gated == (g.dv_first != nullptr),
          "a gate mixes in the first layer's v, and has a gradient");
  require_aligned(op.raw_w, op.raw_a, op.raw_k, op.raw_v, op.gate, op.v_first, op.w0, op.a0, op.v0,
                  op.k_k, op.k_a);
  require_aligned(g.dw, g.dr, g.da, g.db, g.dk, g.dv, g.dv_bonus, g.r, g.r_k, g.draw_r, g.draw_w,
                  g.draw_a, g.draw_k, g.draw_v, g.dgate, g.dv_first, g.scratch);
  const RowPartition partition(op.rows, for_inputs);
  if (gated)
    run_inputs<Real, true>(g, partition, gpu);
  else
    run_inputs<Real, false>(g, partition, gpu);
  add_partials({partition.blocks,
                op.rows.channels,
                gated ? input_sets : input_sets - 1,
                g.scratch,
                {g.dw0, g.da0, g.dk_k, g.dk_a, g.dv0}},
               gpu);
}

template <class Real>
void time_mix_output_backward(const TimeMixOutputGradient<Real>& g, const Gpu& gpu) {
  const TimeMixOutput<Real>& op = g.op;
  if (op.rows.rows() == 0) return;
  require_aligned(op.read, op.r, op.k, op.v, op.g, op.weight, op.bias, op.r_k, g.dy, g.dread,
                  g.dv_bonus, g.dg, g.scratch);
  const unsigned threads = threads_of_row(op.rows.channels);
  const RowPartition partition(op.rows, for_output);
  launch(threads <= 256 ? output_backward_rows<Real, 256> : output_backward_rows<Real, 1024>,
         {unsigned(partition.blocks), threads}, gpu, g, partition.rows);
  add_partials(
      {partition.blocks, op.rows.channels, output_sets, g.scratch, {g.dweight, g.dbias, g.dr_k}},
      gpu);
}

template void time_mix_inputs_backward(const TimeMixInputsGradient<float>&, const Gpu&);
template void time_mix_inputs_backward(const TimeMixInputsGradient<bf16>&, const Gpu&);
template void time_mix_output_backward(const TimeMixOutputGradient<float>&, const Gpu&);
template void time_mix_output_backward(const TimeMixOutputGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
