#include "kernel/short_conv/cuda.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/short_conv/cuda_parts.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// The input of a sequence's token, which may be one before the block.
template <int width, class Real>
__device__ void load_input(const ShortConv<Real>& op, int sequence, int64_t token, int64_t channel,
                           float (&x)[width]) {
  if (token >= 0)
    load_channels<width>(op.x + (op.rows.first[sequence] + token) * op.step + channel, x);
  else if (!op.rows.states)
    for (float& zero : x) zero = 0;
  else
    load_channels<width>(op.rows.states[sequence] + op.state_at +
                             (op.taps - 1 + token) * op.channels + channel,
                         x);
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    convolve(const __grid_constant__ ShortConv<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.channels / width, row = i / pieces;
  if (row >= op.rows.rows) return;
  const int64_t channel = i % pieces * width;
  const int sequence = op.rows.sequence[row];
  const int64_t token = row - op.rows.first[sequence];
  float sum[width] = {};
  for (int64_t j = 0; j < op.taps; ++j) {
    float x[width], w[width];
    load_input(op, sequence, token - op.taps + 1 + j, channel, x);
    load_channels<width>(op.weight + j * op.channels + channel, w);
#pragma unroll
    for (int c = 0; c < width; ++c) sum[c] = fmaf(w[c], x[c], sum[c]);
  }
#pragma unroll
  for (int c = 0; c < width; ++c) sum[c] *= sigmoid(sum[c]);
  store_channels<width>(place_in(op.parts, row, channel), sum);
}

// What a token's place gets comes from a later place or from x: in order, nothing is lost.
template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    keep_inputs(const __grid_constant__ ShortConv<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.channels / width, sequence = i / pieces;
  if (sequence >= op.rows.sequences) return;
  const int64_t channel = i % pieces * width, length = op.rows.length[sequence];
  for (int64_t j = 0; j < op.taps - 1; ++j) {
    float x[width];
    load_input(op, int(sequence), length - op.taps + 1 + j, channel, x);
    store_channels<width>(
        op.rows.states[sequence] + op.state_at + j * op.channels + channel, x);
  }
}

}  // namespace

template <class Real>
void short_conv(const ShortConv<Real>& op, const Gpu& gpu) {
  expect_places(op.parts, op.channels);
  const bool eight = in_eights({op.channels, op.step, 2 * op.state_at, op.parts[0].channels,
                                op.parts[1].channels, op.parts[2].channels},
                               {op.x, op.weight, op.parts[0].y, op.parts[1].y, op.parts[2].y});
  with_width(eight, [&]<int width>() {
    const int64_t pieces = op.channels / width;
    launch(convolve<width, Real>, {blocks_for(op.rows.rows * pieces), channel_threads}, gpu, op);
    if (op.taps > 1 && op.rows.states)
      launch(keep_inputs<width, Real>,
             {blocks_for(op.rows.sequences * pieces), channel_threads}, gpu, op);
  });
}

template void short_conv(const ShortConv<float>&, const Gpu&);
template void short_conv(const ShortConv<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
