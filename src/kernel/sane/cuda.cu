#include "kernel/sane/cuda.h"

#include "kernel/sane/cuda_tau.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    tau_each(const float* z, int64_t count, double alpha, float* tau) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  tau[i] = float(tau_of(double(z[i]), alpha));
}
__global__ void __launch_bounds__(threads)
    tau_per_head_each(const float* z, int64_t count, int64_t heads, const float* alphas,
                      float* tau) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const double alpha = alphas[i % heads];
  tau[i] = float(tau_of(z ? double(z[i]) : 0.0, alpha));
}
__global__ void __launch_bounds__(threads)
    unbound_each(const uint8_t* whole, int64_t count, int64_t heads, float* tau) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < count && !whole[i / heads]) tau[i] = unbounded_tau;
}
__global__ void fill_each(float* tau, int64_t count, float value) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) tau[i] = value;
}

unsigned blocks_of(int64_t count) { return unsigned((count + threads - 1) / threads); }

}  // namespace

void tau_forward(const float* z, int64_t count, double alpha, float* tau, const Gpu& gpu) {
  if (count > 0) launch(tau_each, {blocks_of(count), threads}, gpu, z, count, alpha, tau);
}

void tau_forward_per_head(const float* z, int64_t count, int64_t heads, const float* alphas,
                          float* tau, const Gpu& gpu) {
  const int64_t all = count * heads;
  if (all > 0)
    launch(tau_per_head_each, {blocks_of(all), threads}, gpu, z, all, heads, alphas, tau);
}

void unbound_tau(const uint8_t* whole, int64_t ends, int64_t heads, float* tau, const Gpu& gpu) {
  const int64_t all = ends * heads;
  if (all > 0) launch(unbound_each, {blocks_of(all), threads}, gpu, whole, all, heads, tau);
}

void fill_tau(float* tau, int64_t count, float value, const Gpu& gpu) {
  if (count > 0) launch(fill_each, {blocks_of(count), threads}, gpu, tau, count, value);
}

}  // namespace deltasane::kernel::cuda
