// activate, thresholds and add_rows, forward and backward: one element at a time, eight to a
// thread.
#include <algorithm>

#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_gates.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;

// to = body(from, to) over `count` elements; the first `octets` x 8 of them eight at a time.
template <class From, class To, class Body>
__global__ void __launch_bounds__(threads)
    each_element(const From* from, To* to, int64_t count, int64_t octets, Body body) {
  const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x;
  const int64_t step = int64_t(gridDim.x) * threads;
  for (int64_t i = first; i < octets; i += step) {
    float x[octet], y[octet];
    load(from + i * octet, x);
    load(to + i * octet, y);
#pragma unroll
    for (int j = 0; j < octet; ++j) y[j] = body(x[j], y[j]);
    store(to + i * octet, y);
  }
  for (int64_t i = octets * octet + first; i < count; i += step)
    put(to + i, body(to_float(from[i]), to_float(to[i])));
}

template <class From, class To, class Body>
void over_elements(const From* from, To* to, int64_t count, Body body, const Gpu& gpu) {
  if (count == 0) return;
  const auto address = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  const int64_t octets = address % 16 == 0 ? count / octet : 0;
  const int64_t work = std::max(octets, count - octets * octet);
  const int64_t blocks =
      std::min<int64_t>((work + threads - 1) / threads, 32 * gpu.facts().multiprocessors);
  launch(each_element<From, To, Body>, {unsigned(blocks), threads}, gpu, from, to, count, octets,
         body);
}

struct Tanh {
  __device__ float operator()(float, float x) const { return tanhf(x); }
};
struct Sigmoid {
  __device__ float operator()(float, float x) const { return sigmoid(x); }
};
struct SquaredRelu {
  __device__ float operator()(float, float x) const { return x > 0 ? x * x : 0.0f; }
};
// From y and dy.
struct TanhBackward {
  __device__ float operator()(float y, float dy) const { return dy * (1.0f - y * y); }
};
struct SigmoidBackward {
  __device__ float operator()(float y, float dy) const { return dy * y * (1.0f - y); }
};
struct SquaredReluBackward {
  __device__ float operator()(float y, float dy) const { return dy * 2.0f * sqrtf(y); }
};
struct Sum {
  __device__ float operator()(float from, float to) const { return to + from; }
};

// In double as on the CPU: there are few of them.
__device__ double softplus(double x) { return fmax(x, 0.0) + log1p(exp(-fabs(x))); }
__global__ void __launch_bounds__(threads)
    thresholds_each(const float* z, int64_t count, double alpha, float* tau) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  tau[i] = float(alpha * softplus(z[i]) + 1.0);
}
__global__ void __launch_bounds__(threads)
    thresholds_of_heads_each(const float* z, int64_t count, int64_t heads, const float* alphas,
                             float* tau) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  tau[i] = float(double(alphas[i % heads]) * softplus(z ? double(z[i]) : 0.0) + 1.0);
}
unsigned blocks_of(int64_t count) { return unsigned((count + threads - 1) / threads); }

}  // namespace

void thresholds(const float* z, int64_t count, double alpha, float* tau, const Gpu& gpu) {
  if (count > 0) launch(thresholds_each, {blocks_of(count), threads}, gpu, z, count, alpha, tau);
}
void thresholds_of_heads(const float* z, int64_t count, int64_t heads, const float* alphas,
                         float* tau, const Gpu& gpu) {
  const int64_t all = count * heads;
  if (all > 0)
    launch(thresholds_of_heads_each, {blocks_of(all), threads}, gpu, z, all, heads, alphas, tau);
}
template <class Real>
void activate(GpuActivation activation, Real* x, int64_t count, const Gpu& gpu) {
  const Real* const same = x;
  switch (activation) {
    case GpuActivation::tanh:
      return over_elements(same, x, count, Tanh(), gpu);
    case GpuActivation::sigmoid:
      return over_elements(same, x, count, Sigmoid(), gpu);
    case GpuActivation::squared_relu:
      return over_elements(same, x, count, SquaredRelu(), gpu);
  }
}

template <class Real>
void activate_backward(GpuActivation activation, const Real* y, Real* dy, int64_t count,
                       const Gpu& gpu) {
  switch (activation) {
    case GpuActivation::tanh:
      return over_elements(y, dy, count, TanhBackward(), gpu);
    case GpuActivation::sigmoid:
      return over_elements(y, dy, count, SigmoidBackward(), gpu);
    case GpuActivation::squared_relu:
      return over_elements(y, dy, count, SquaredReluBackward(), gpu);
  }
}

template <class Real>
void add_rows(const float* from, Real* to, int64_t count, const Gpu& gpu) {
  over_elements(from, to, count, Sum(), gpu);
}

template void activate(GpuActivation, float*, int64_t, const Gpu&);
template void activate(GpuActivation, bf16*, int64_t, const Gpu&);
template void activate_backward(GpuActivation, const float*, float*, int64_t, const Gpu&);
template void activate_backward(GpuActivation, const bf16*, bf16*, int64_t, const Gpu&);
template void add_rows(const float*, float*, int64_t, const Gpu&);
template void add_rows(const float*, bf16*, int64_t, const Gpu&);

}  // namespace deltasane::kernel::cuda
