// A block has whole rows, a few of them one after the other.
#include "kernel/time_mix/cuda.h"

#include <algorithm>

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/time_mix/cuda_decay.cuh"
#include "kernel/time_mix/cuda_head.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// `blocks`: resident ones per multiprocessor, which bounds the registers.
template <class Real, int most_threads, int blocks>
__global__ void __launch_bounds__(most_threads, blocks)
    inputs_rows(const __grid_constant__ TimeMixInputs<Real> op, int64_t rows_per_block) {
  trigger_dependent_launch();
  grid_dependency_synchronize();
  const int64_t channels = op.rows.channels, c = int64_t(threadIdx.x) * octet;
  // Channels are whole heads, so that threads without any are whole heads too: all join in the
  // shuffles.
  const bool mine = c < channels;
  const int64_t begin = blockIdx.x * rows_per_block,
                end = min(op.rows.sequences * op.rows.time, begin + rows_per_block);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * channels + c;
    float w[octet] = {}, a[octet] = {}, k[octet] = {}, v[octet] = {}, b[octet];
    float w0[octet] = {}, a0[octet] = {}, k_k[octet] = {}, k_a[octet] = {};
    Packed<Real> gate, v_first;
    if (mine) {
      load(op.raw_w + at, w);
      load(op.raw_a + at, a);
      load(op.raw_k + at, k);
      load(op.raw_v + at, v);
      if (op.gate) gate = Packed<Real>(op.gate + at), v_first = Packed<Real>(op.v_first + at);
      // From L1 for every row, not in registers for all rows: more blocks are resident.
      load(op.w0 + c, w0);
      load(op.a0 + c, a0);
      load(op.k_k + c, k_k);
      load(op.k_a + c, k_a);
    }
    const Direction direction(k, k_k, op.key_norm);
#pragma unroll
    for (int i = 0; i < octet; ++i) {
      const float kappa = k[i] * k_k[i] * direction.inverse;
      const float rate = sigmoid(a0[i] + a[i]);
      w[i] = decay_of(sigmoid(w0[i] + w[i]));
      a[i] = -kappa;
      b[i] = kappa * rate;
      k[i] *= 1.0f + (rate - 1.0f) * k_a[i];
    }
    if (!mine) continue;
    store(op.w + at, w);
    store(op.a + at, a);
    store(op.b + at, b);
    store(op.k + at, k);
    if (op.gate) {
      float v0[octet], first[octet], x[octet];
      load(op.v0 + c, v0);
      gate.unpack(x);
      v_first.unpack(first);
#pragma unroll
      for (int i = 0; i < octet; ++i) v[i] += (first[i] - v[i]) * sigmoid(v0[i] + x[i]);
    }
    store(op.v + at, v);
  }
}

template <class Real, int most_threads>
__global__ void __launch_bounds__(most_threads)
    output_rows(const __grid_constant__ TimeMixOutput<Real> op, int64_t rows_per_block) {
  trigger_dependent_launch();
  grid_dependency_synchronize();
  const int64_t channels = op.rows.channels, c = int64_t(threadIdx.x) * octet;
  const bool mine = c < channels;
  const int64_t begin = blockIdx.x * rows_per_block,
                end = min(op.rows.sequences * op.rows.time, begin + rows_per_block);
  float weight[octet] = {}, bias[octet] = {}, r_k[octet] = {};
  if (mine) {
    load(op.weight + c, weight);
    load(op.bias + c, bias);
    load(op.r_k + c, r_k);
  }
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * channels + c;
    float y[octet] = {}, r[octet] = {}, k[octet] = {}, v[octet] = {}, g[octet] = {};
    if (mine) {
      load(op.read + at, y);
      load(op.r + at, r);
      load(op.k + at, k);
      load(op.v + at, v);
      load(op.g + at, g);
    }
    float bonus = 0;
#pragma unroll
    for (int i = 0; i < octet; ++i) bonus += r[i] * k[i] * r_k[i];
    bonus = head_sum(bonus);
    const HeadMoments n(y, op.eps);
#pragma unroll
    for (int i = 0; i < octet; ++i) y[i] = (n(y[i]) * weight[i] + bias[i] + bonus * v[i]) * g[i];
    if (mine) store(op.y + at, y);
  }
}

// Launches the kernel for rows of this width: wide ones have fewer registers per thread.
template <class Op>
void over_rows(void (*kernel)(Op, int64_t), const Op& op, const Gpu& gpu) {
  const int64_t rows = op.rows.rows(), each = rows_per_block(rows, 2112);
  if (rows == 0) return;
  const Grid grid{unsigned((rows + each - 1) / each), threads_of_row(op.rows.channels)};
  if (op.rows.overlaps())
    launch_dependent(kernel, grid, gpu, op, each);
  else
    launch(kernel, grid, gpu, op, each);
}

}  // namespace

template <class Real>
void time_mix_inputs(const TimeMixInputs<Real>& op, const Gpu& gpu) {
  require((op.gate == nullptr) == (op.v_first == nullptr), "a gate mixes in the first layer's v");
  require_aligned(op.raw_w, op.raw_a, op.raw_k, op.raw_v, op.gate, op.v_first, op.w0, op.a0, op.v0,
                  op.k_k, op.k_a, op.w, op.a, op.b, op.k, op.v);
  const unsigned threads = threads_of_row(op.rows.channels);
  over_rows(threads <= 128   ? inputs_rows<Real, 128, 6>
            : threads <= 256 ? inputs_rows<Real, 256, 1>
                             : inputs_rows<Real, 1024, 1>,
            op, gpu);
}

template <class Real>
void time_mix_output(const TimeMixOutput<Real>& op, const Gpu& gpu) {
  require_aligned(op.read, op.r, op.k, op.v, op.g, op.weight, op.bias, op.r_k, op.y);
  const unsigned threads = threads_of_row(op.rows.channels);
  over_rows(threads <= 256 ? output_rows<Real, 256> : output_rows<Real, 1024>, op, gpu);
}

template void time_mix_inputs(const TimeMixInputs<float>&, const Gpu&);
template void time_mix_inputs(const TimeMixInputs<bf16>&, const Gpu&);
template void time_mix_output(const TimeMixOutput<float>&, const Gpu&);
template void time_mix_output(const TimeMixOutput<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
