#include "kernel/norm/rms_cuda.h"

#include "kernel/activation/cuda_gate_value.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "kernel/norm/heads_cuda/head_threads.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <int width, int pieces, class Real, int warps>
__device__ float sum_of_squares(const HeadThreads<warps>& threads,
                                const HeadChannels<width, pieces, Real>& x, int64_t size) {
  __shared__ float place[2][32];
  BlockSums<1> sums{place};
  float squares[1] = {};
  threads.template each_piece<width, pieces>(size, [&](int piece, int64_t c) {
    float some[width];
    x.get(piece, c, some);
#pragma unroll
    for (int i = 0; i < width; ++i) squares[0] = fmaf(some[i], some[i], squares[0]);
  });
  threads.sum(squares, sums);
  return squares[0];
}

template <int width, int warps, int pieces, class In, class Out>
__global__ void __launch_bounds__(channel_threads)
    rms_heads(const __grid_constant__ RmsNorm<In, Out> op) {
  const HeadThreads<warps> threads;
  if (threads.head >= op.rows * op.heads) return;
  const int64_t row = threads.head / op.heads, at = threads.head % op.heads * op.size;
  Out* const y = op.y + row * op.y_step + at;
  if (op.present && !op.present[row]) {
    const float zero[width] = {};
    return threads.template each<width>(op.size,
                                        [&](int64_t c) { store_channels<width>(y + c, zero); });
  }
  const HeadChannels<width, pieces, In> x(threads, op.x + row * op.x_step + at, op.size);
  const float squares = sum_of_squares(threads, x, op.size);
  const float scale = 1.0f / sqrtf(squares / float(op.size) + op.eps);
  threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
    float value[width], weight[width];
    x.get(piece, c, value);
    load_channels<width>(op.weight + c, weight);
#pragma unroll
    for (int i = 0; i < width; ++i) value[i] *= scale * weight[i];
    if (op.gate) {
      float gate[width], bias[width] = {};
      load_channels<width>(op.gate + row * op.gate_step + at + c, gate);
      if (op.gate_bias) load_channels<width>(op.gate_bias + at + c, bias);
#pragma unroll
      for (int i = 0; i < width; ++i)
        value[i] *= gate_value(op.activation, gate[i] + bias[i]).value;
    }
    if (op.add) {
      float before[width];
      load_channels<width>(y + c, before);
#pragma unroll
      for (int i = 0; i < width; ++i) value[i] += before[i];
    }
    store_channels<width>(y + c, value);
  });
}

template <int width, int warps, int pieces, class Real>
__global__ void __launch_bounds__(channel_threads) l2_heads(const __grid_constant__ L2Norms<Real> op) {
  const HeadThreads<warps> threads;
  const int64_t of_one = op.rows * op.heads;
  if (threads.head >= 2 * of_one) return;
  const int which = threads.head >= of_one;
  const int64_t at = (threads.head - which * of_one) * op.size;
  const HeadChannels<width, pieces, Real> x(threads, op.x[which] + at, op.size);
  const float factor = op.scale[which] / sqrtf(sum_of_squares(threads, x, op.size) + op.eps);
  threads.template each_piece<width, pieces>(op.size, [&](int piece, int64_t c) {
    float value[width];
    x.get(piece, c, value);
#pragma unroll
    for (int i = 0; i < width; ++i) value[i] *= factor;
    store_channels<width>(op.y[which] + at + c, value);
  });
}

}  // namespace

template <class In, class Out>
void rms_norm(const RmsNorm<In, Out>& op, const Gpu& gpu) {
  const int64_t all = op.rows * op.heads;
  require(!op.present || !op.add, "rms_norm: expected all rows present where they are added to");
  if (all == 0) return;
  const bool eight = in_eights({op.size, op.x_step, op.y_step, op.gate_step},
                               {op.x, op.weight, op.y, op.gate, op.gate_bias});
  with_head_threads(eight, op.size, [&]<int width, int warps, int pieces>() {
    launch(rms_heads<width, warps, pieces, In, Out>,
           {blocks_of_heads<warps>(all), channel_threads}, gpu, op);
  });
}

template <class Real>
void l2_norms(const L2Norms<Real>& op, const Gpu& gpu) {
  const int64_t all = 2 * op.rows * op.heads;
  if (all == 0) return;
  const bool eight = in_eights({op.size}, {op.x[0], op.x[1], op.y[0], op.y[1]});
  with_head_threads(eight, op.size, [&]<int width, int warps, int pieces>() {
    launch(l2_heads<width, warps, pieces, Real>, {blocks_of_heads<warps>(all), channel_threads},
           gpu, op);
  });
}

template void rms_norm(const RmsNorm<float, float>&, const Gpu&);
template void rms_norm(const RmsNorm<float, bf16>&, const Gpu&);
template void rms_norm(const RmsNorm<bf16, bf16>&, const Gpu&);
template void rms_norm(const RmsNorm<bf16, float>&, const Gpu&);
template void l2_norms(const L2Norms<float>&, const Gpu&);
template void l2_norms(const L2Norms<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
