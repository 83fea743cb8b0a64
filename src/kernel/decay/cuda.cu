#include "kernel/decay/cuda.h"

#include "kernel/cuda/channel_width.cuh"
#include "kernel/decay/cuda_decay.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

__global__ void __launch_bounds__(channel_threads)
    each_decay(const __grid_constant__ DecayAndBeta op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t decays = op.z ? op.heads * op.size : 0;
  if (i < op.rows * decays) {
    const int64_t row = i / decays, c = i % decays;
    op.g[i] = log_decay(op.z[row * op.z_step + c] + op.bias[c], op.rate[c / op.size], op.bound);
  }
  if (i < op.rows * op.heads) {
    const int64_t row = i / op.heads, h = i % op.heads;
    op.beta[i] = op.z_beta ? op.beta_scale * sigmoid(op.z_beta[row * op.beta_step + h]) : 1.0f;
  }
}

}  // namespace

void decay_and_beta(const DecayAndBeta& op, const Gpu& gpu) {
  require(!op.z || (op.rate && op.bias && op.g), "decay: expected a rate, a bias and a result");
  const int64_t elements = op.rows * op.heads * (op.z ? op.size : 1);
  if (elements > 0) launch(each_decay, {blocks_for(elements), channel_threads}, gpu, op);
}

}  // namespace deltasane::kernel::cuda
