#include "kernel/gradient_norm/cuda.h"

#include <cuda_runtime.h>

#include <cmath>

#include "kernel/cuda/block_sum.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;
constexpr int most_blocks = 1024;

__global__ void __launch_bounds__(threads)
    sum_squares(const float* gradient, int64_t count, double* partial) {
  const int64_t first = int64_t(blockIdx.x) * threads + threadIdx.x;
  const int64_t step = int64_t(gridDim.x) * threads, octets = count / octet;
  double sum = 0;
  for (int64_t i = first; i < octets; i += step) {
    float x[octet];
    load(gradient + i * octet, x);
#pragma unroll
    for (int j = 0; j < octet; ++j) sum += double(x[j]) * double(x[j]);
  }
  for (int64_t i = octets * octet + first; i < count; i += step)
    sum += double(gradient[i]) * double(gradient[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block.
__global__ void __launch_bounds__(most_blocks)
    decide(const double* partial, int count, double limit, GradientNorm* to) {
  const double sum = block_sum(int(threadIdx.x) < count ? partial[threadIdx.x] : 0.0);
  if (threadIdx.x != 0) return;
  GradientNorm out;
  out.norm = sqrt(sum);
  out.finite = isfinite(out.norm) ? 1 : 0;
  out.scale = limit > 0 && out.norm > limit ? float(limit / (out.norm + 1e-6)) : 1.0f;
  *to = out;
}

int64_t blocks_of(int64_t count) {
  const int64_t wanted = (count + threads * octet - 1) / (threads * octet);
  return wanted < 1 ? 1 : wanted < most_blocks ? wanted : most_blocks;
}

}  // namespace

GradientClip::GradientClip(const Gpu& gpu, int64_t count)
    : count_(count),
      partial_(gpu, {blocks_of(count)}, "the norm of a gradient"),
      norm_(gpu, {1}, "the norm of a gradient") {
  void* pinned = nullptr;
  check_cuda(cudaMallocHost(&pinned, sizeof(GradientNorm)));
  on_host_ = new (pinned) GradientNorm;
}
GradientClip::~GradientClip() { cudaFreeHost(on_host_); }

void GradientClip::measure(const float* gradient, double limit, const Gpu& gpu) {
  require_aligned(gradient);
  const int64_t blocks = blocks_of(count_);
  launch(sum_squares, {unsigned(blocks), threads}, gpu, gradient, count_, partial_.data());
  launch(decide, {1, most_blocks}, gpu, partial_.data(), int(blocks), limit, norm_.data());
  copy_to_host(on_host_, norm_.data(), sizeof(GradientNorm), gpu);
  measured_.record(gpu);
}

GradientNorm GradientClip::result() const {
  measured_.wait();
  return *on_host_;
}

}  // namespace deltasane::kernel::cuda
