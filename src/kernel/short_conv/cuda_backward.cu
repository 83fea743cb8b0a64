// A thread has some channels of a run of tokens. It goes over them once with the last inputs, and the last
// gradients of the sums inside of silu, in registers: dx of a token follows that of the last sum that
// read it.
#include <algorithm>

#include "kernel/activation/cuda_gate_value.cuh"
#include "kernel/short_conv/cuda_parts.cuh"
#include "kernel/sums/columns_cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t most_runs = 264;  // the same on every GPU
constexpr int threads = 128, batch = 4;

// Of tokens: a part of a sequence, or some whole ones.
struct Runs {
  int64_t tokens, sequences;  // of a run
  int64_t of_sequence, all;   // runs
  explicit Runs(const RowBlock& rows) {
    const int64_t wanted = std::max<int64_t>(1, (rows.rows() + most_runs - 1) / most_runs);
    const int64_t time = std::max<int64_t>(1, rows.time);
    tokens = std::min(wanted, time), of_sequence = (time + tokens - 1) / tokens;
    sequences = wanted / time > 1 ? wanted / time : 1;
    all = (rows.sequences + sequences - 1) / sequences * of_sequence;
  }
};

__global__ void __launch_bounds__(channel_threads)
    turn_taps(const float* weight, int64_t channels, int64_t taps, float* to) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  if (i < channels * taps) to[i % taps * channels + i / taps] = weight[i];
}

// The last `most` tokens' inputs and gradients of sums, the latest first, and the taps, the last first.
template <int width, int most>
struct ConvWindow {
  float x[most][width], dsum[most][width], tap[most][width], dtap[most][width] = {};

  template <class Real>
  __device__ ConvWindow(const ShortConvGradient<Real>& op, int64_t c) {
    load_taps(op.weight, op.taps, op.rows.channels, c, tap);
  }
  __device__ void push(const float (&latest)[width]) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
#pragma unroll
      for (int far = most - 1; far > 0; --far)
        x[far][k] = x[far - 1][k], dsum[far][k] = dsum[far - 1][k];
      x[0][k] = latest[k], dsum[0][k] = 0;
    }
  }
  // with_taps: the token is one of the run's.
  __device__ void backward(const float (&dy)[width], bool with_taps) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      const float sum = sum_of_taps(tap, x, k);
      dsum[0][k] = dy[k] * gate_value(GateActivation::silu, sum).derivative;
#pragma unroll
      for (int far = 0; far < most; ++far)
        if (with_taps) dtap[far][k] = fmaf(x[far][k], dsum[0][k], dtap[far][k]);
    }
  }
  // Of the oldest token.
  __device__ void dx(float (&to)[width]) const {
#pragma unroll
    for (int k = 0; k < width; ++k) {
      to[k] = 0;
#pragma unroll
      for (int far = 0; far < most; ++far)
        to[k] = fmaf(tap[far][k], dsum[most - 1 - far][k], to[k]);
    }
  }
};

// partial: (runs, C, taps). most: of the taps, whose sums are in registers
template <int width, int most, class Real>
__global__ void __launch_bounds__(threads, sizeof(Real) == 2 ? 3 : 2)
    convolve_backward(const __grid_constant__ ShortConvGradient<Real> op,
                      const __grid_constant__ Runs runs, float* partial) {
  const int64_t channels = op.rows.channels, time = op.rows.time;
  const int64_t c = (int64_t(blockIdx.x) * threads + threadIdx.x) * width;
  if (c >= channels) return;
  const int64_t run = blockIdx.y, begin = run % runs.of_sequence * runs.tokens;
  const int64_t end = min(time, begin + runs.tokens);
  const int64_t first = run / runs.of_sequence * runs.sequences;
  const int64_t last = min(op.rows.sequences, first + runs.sequences);
  const Real* const dy_0 = place_in(op.parts, 0, c);
  const int64_t dy_step = place_in(op.parts, 1, c) - dy_0;
  ConvWindow<width, most> window(op, c);
  for (int64_t sequence = first; sequence < last; ++sequence) {
    const int64_t row = sequence * time;  // the first
    const auto arriving = [&](const Real* from, int64_t step, int64_t t) {
      Arriving<width, Real> some;
      if (t >= 0 && t < time) some.load(from + (row + t) * step);
      return some;
    };
    float numbers[width];
#pragma unroll
    for (int far = most - 1; far > 0; --far) {
      arriving(op.x + c, channels, begin - far).unpack(numbers);
      window.push(numbers);
    }
#pragma unroll 1
    for (int64_t from = begin; from < end + most - 1; from += batch) {
      Arriving<width, Real> x[batch], dy[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        x[i] = arriving(op.x + c, channels, from + i);
        dy[i] = arriving(dy_0, dy_step, from + i);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int64_t t = from + i, oldest = t - most + 1;
        x[i].unpack(numbers), window.push(numbers);
        dy[i].unpack(numbers), window.backward(numbers, t < end);
        if (oldest < begin || oldest >= end) continue;
        window.dx(numbers);
        store_channels<width>(op.dx + (row + oldest) * channels + c, numbers);
      }
    }
  }
  if (!op.dweight) return;
#pragma unroll
  for (int far = 0; far < most; ++far)
    if (far < op.taps)
#pragma unroll
      for (int k = 0; k < width; ++k)
        partial[(run * channels + c + k) * op.taps + op.taps - 1 - far] = window.dtap[far][k];
}

}  // namespace

void taps_first(const float* weight, int64_t channels, int64_t taps, float* to, const Gpu& gpu) {
  launch(turn_taps, {blocks_for(channels * taps), channel_threads}, gpu, weight, channels, taps,
         to);
}

int64_t short_conv_scratch(const RowBlock& rows, int64_t taps) {
  const int64_t runs = Runs(rows).all, columns = rows.channels * taps;
  return runs * columns + column_sums_scratch(runs, columns);
}

template <class Real>
void short_conv_backward(const ShortConvGradient<Real>& op, const Gpu& gpu) {
  const int64_t rows = op.rows.rows(), channels = op.rows.channels;
  expect_places(op.parts, channels);
  if (rows == 0) return;
  const bool eight =
      in_eights({channels, op.parts[0].channels, op.parts[1].channels, op.parts[2].channels},
                {op.x, op.weight, op.dx, op.parts[0].y, op.parts[1].y, op.parts[2].y});
  const Runs runs(op.rows);
  with_taps(eight, op.taps, [&]<int width, int most>() {
    const int64_t pieces = channels / width;
    launch(convolve_backward<width, most, Real>,
           {dim3(unsigned((pieces + threads - 1) / threads), unsigned(runs.all)), threads}, gpu, op,
           runs, op.scratch);
  });
  if (op.dweight)
    column_sums<float>({.rows = runs.all,
                        .columns = channels * op.taps,
                        .x = op.scratch,
                        .to = op.dweight,
                        .scratch = op.scratch + runs.all * channels * op.taps},
                       gpu);
}

template void short_conv_backward(const ShortConvGradient<float>&, const Gpu&);
template void short_conv_backward(const ShortConvGradient<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
