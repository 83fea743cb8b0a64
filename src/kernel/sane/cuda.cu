#include "kernel/sane/cuda.h"

#include "kernel/cuda/vectorized_row.cuh"
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

template <class Real>
__global__ void __launch_bounds__(threads)
    tau_backward_each(const float* z, const float* dtau, int64_t count, float alpha, Real* dz) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i < count) store_one(dz + i, dtau[i] * tau_derivative(z[i], alpha));
}
__global__ void __launch_bounds__(threads)
    add_ends(const __grid_constant__ ChunkEnds rows, int64_t count, const float* ends, float* x) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const int64_t chunks = rows.time / rows.chunk, end = i / rows.channels;
  const int64_t token = (end % chunks + 1) * rows.chunk - 1;
  x[(end / chunks * rows.time + token) * rows.channels + i % rows.channels] += ends[i];
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

template <class Real>
void tau_backward(const float* z, const float* dtau, int64_t count, double alpha, Real* dz,
                  const Gpu& gpu) {
  if (count > 0)
    launch(tau_backward_each<Real>, {blocks_of(count), threads}, gpu, z, dtau, count, float(alpha),
           dz);
}
template void tau_backward(const float*, const float*, int64_t, double, float*, const Gpu&);
template void tau_backward(const float*, const float*, int64_t, double, bf16*, const Gpu&);

void add_chunk_ends(const ChunkEnds& rows, const float* ends, float* x, const Gpu& gpu) {
  const int64_t count = rows.sequences * (rows.time / rows.chunk) * rows.channels;
  if (count > 0) launch(add_ends, {blocks_of(count), threads}, gpu, rows, count, ends, x);
}

void fill_tau(float* tau, int64_t count, float value, const Gpu& gpu) {
  if (count > 0) launch(fill_each, {blocks_of(count), threads}, gpu, tau, count, value);
}

}  // namespace deltasane::kernel::cuda
