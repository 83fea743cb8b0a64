// In two passes: dy becomes the gradient of the sum inside of silu; then a thread has some channels
// of a run of rows, for dx and for the run's part of dweight.
#include <algorithm>

#include "kernel/activation/cuda_gate_value.cuh"
#include "kernel/short_conv/cuda_parts.cuh"
#include "kernel/sums/columns_cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t most_runs = 528;  // the same on every GPU
constexpr int most_taps = 16, few_taps = 4;

int64_t run_of(int64_t rows) { return std::max<int64_t>(1, (rows + most_runs - 1) / most_runs); }
int64_t runs_of(int64_t rows) { return (rows + run_of(rows) - 1) / run_of(rows); }

__global__ void __launch_bounds__(channel_threads)
    turn_taps(const float* weight, int64_t channels, int64_t taps, float* to) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  if (i < channels * taps) to[i % taps * channels + i / taps] = weight[i];
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    sum_backward(const __grid_constant__ ShortConvGradient<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t channels = op.rows.channels, pieces = channels / width, row = i / pieces;
  if (row >= op.rows.sequences * op.rows.time) return;
  const int64_t c = i % pieces * width, token = row % op.rows.time;
  float sum[width] = {};
  for (int64_t j = max(int64_t(0), op.taps - 1 - token); j < op.taps; ++j) {
    float x[width], w[width];
    load_channels<width>(op.x + (row - op.taps + 1 + j) * channels + c, x);
    load_channels<width>(op.weight + j * channels + c, w);
#pragma unroll
    for (int k = 0; k < width; ++k) sum[k] = fmaf(w[k], x[k], sum[k]);
  }
  Real* const place = place_in(op.parts, row, c);
  float dy[width];
  load_channels<width>(place, dy);
#pragma unroll
  for (int k = 0; k < width; ++k) dy[k] *= gate_value(GateActivation::silu, sum[k]).derivative;
  store_channels<width>(place, dy);
}

// partial: (runs, C, taps). most: of the taps, whose sums are in registers
template <int width, int most, class Real>
__global__ void __launch_bounds__(channel_threads)
    inputs_backward(const __grid_constant__ ShortConvGradient<Real> op, int64_t run,
                    float* partial) {
  const int64_t channels = op.rows.channels, time = op.rows.time;
  const int64_t c = (int64_t(blockIdx.x) * channel_threads + threadIdx.x) * width;
  if (c >= channels) return;
  const int64_t begin = blockIdx.y * run, end = min(op.rows.sequences * time, begin + run);
  float dweight[most][width] = {};
  for (int64_t row = begin; row < end; ++row) {
    const int64_t left = time - 1 - row % time;  // tokens behind this one
    float x[width], dx[width] = {};
    load_channels<width>(op.x + row * channels + c, x);
    // The tap that met this input in the sum of `far` tokens later.
#pragma unroll
    for (int far = 0; far < most; ++far)
      if (far < op.taps && far <= left) {
        float dsum[width], w[width];
        load_channels<width>(place_in(op.parts, row + far, c), dsum);
        load_channels<width>(op.weight + (op.taps - 1 - far) * channels + c, w);
#pragma unroll
        for (int k = 0; k < width; ++k) {
          dx[k] = fmaf(w[k], dsum[k], dx[k]);
          dweight[far][k] = fmaf(x[k], dsum[k], dweight[far][k]);
        }
      }
    store_channels<width>(op.dx + row * channels + c, dx);
  }
  if (!op.dweight) return;
#pragma unroll
  for (int far = 0; far < most; ++far)
    if (far < op.taps)
#pragma unroll
      for (int k = 0; k < width; ++k)
        partial[(blockIdx.y * channels + c + k) * op.taps + op.taps - 1 - far] = dweight[far][k];
}

}  // namespace

void taps_first(const float* weight, int64_t channels, int64_t taps, float* to, const Gpu& gpu) {
  launch(turn_taps, {blocks_for(channels * taps), channel_threads}, gpu, weight, channels, taps,
         to);
}

int64_t short_conv_scratch(const RowBlock& rows, int64_t taps) {
  const int64_t runs = runs_of(rows.rows()), columns = rows.channels * taps;
  return runs * columns + column_sums_scratch(runs, columns);
}

template <class Real>
void short_conv_backward(const ShortConvGradient<Real>& op, const Gpu& gpu) {
  const int64_t rows = op.rows.rows(), channels = op.rows.channels;
  expect_places(op.parts, channels);
  if (op.taps < 1 || op.taps > most_taps)
    fail(Fault::argument, "taps: expected 1 to ", most_taps, ", found ", op.taps);
  if (rows == 0) return;
  const bool eight =
      in_eights({channels, op.parts[0].channels, op.parts[1].channels, op.parts[2].channels},
                {op.x, op.weight, op.dx, op.parts[0].y, op.parts[1].y, op.parts[2].y});
  const int64_t runs = runs_of(rows);
  with_width(eight, [&]<int width>() {
    const int64_t pieces = channels / width;
    launch(sum_backward<width, Real>, {blocks_for(rows * pieces), channel_threads}, gpu, op);
    const Grid grid{dim3(blocks_for(pieces), unsigned(runs)), channel_threads};
    const auto kernel = op.taps <= few_taps ? inputs_backward<width, few_taps, Real>
                                            : inputs_backward<width, most_taps, Real>;
    launch(kernel, grid, gpu, op, run_of(rows), op.scratch);
  });
  if (op.dweight)
    column_sums<float>({.rows = runs,
                        .columns = channels * op.taps,
                        .x = op.scratch,
                        .to = op.dweight,
                        .scratch = op.scratch + runs * channels * op.taps},
                       gpu);
}

template void short_conv_backward(const ShortConvGradient<float>&, const Gpu&);
template void short_conv_backward(const ShortConvGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
