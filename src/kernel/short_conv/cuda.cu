#include "kernel/short_conv/cuda.h"

#include <algorithm>

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

// A thread has some channels of a run of rows, with the last inputs in registers.
template <int width, int most, class Real>
__global__ void __launch_bounds__(channel_threads)
    convolve(const __grid_constant__ ShortConv<Real> op, int run) {
  constexpr int batch = 8;  // rows that are loaded at once
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.channels / width, first = i / pieces * run;
  const int64_t channel = i % pieces * width, end = min(op.rows.rows, first + run);
  float tap[most][width], x[most][width];
  load_taps(op.weight, op.taps, op.channels, channel, tap);
  int before = -1;  // the window's sequence
#pragma unroll 1
  for (int64_t from = first; from < end; from += batch) {
    Arriving<width, Real> latest[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j)
      if (from + j < end) latest[j].load(op.x + (from + j) * op.step + channel);
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const int64_t row = from + j;
      if (row >= end) break;
      const int sequence = op.rows.sequence[row];
#pragma unroll
      for (int far = most - 1; far > 0; --far) {
        if (sequence != before && far < op.taps)
          load_input(op, sequence, row - op.rows.first[sequence] - far, channel, x[far]);
        else
#pragma unroll
          for (int k = 0; k < width; ++k) x[far][k] = sequence == before ? x[far - 1][k] : 0.0f;
      }
      latest[j].unpack(x[0]);
      before = sequence;
      float y[width];
#pragma unroll
      for (int k = 0; k < width; ++k) {
        const float sum = sum_of_taps(tap, x, k);
        y[k] = sum * sigmoid(sum);
      }
      store_channels<width>(place_in(op.parts, row, channel), y);
    }
  }
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
  if (op.rows.rows == 0) return;
  with_taps(eight, op.taps, [&]<int width, int most>() {
    const int64_t pieces = op.channels / width, all = op.rows.rows * pieces;
    // Runs as long as they leave threads for the whole GPU.
    const int64_t enough = 1024 * gpu.properties().multiprocessors;
    const auto run = int(std::clamp<int64_t>(all / enough, 1, 16));
    const int64_t runs = (op.rows.rows + run - 1) / run;
    launch(convolve<width, most, Real>, {blocks_for(runs * pieces), channel_threads}, gpu, op, run);
  });
  if (op.taps == 1 || !op.rows.states) return;
  with_width(eight, [&]<int width>() {
    const int64_t pieces = op.channels / width;
    launch(keep_inputs<width, Real>, {blocks_for(op.rows.sequences * pieces), channel_threads},
           gpu, op);
  });
}

template void short_conv(const ShortConv<float>&, const Gpu&);
template void short_conv(const ShortConv<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
