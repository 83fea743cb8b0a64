#include "kernel/decay/cuda.h"

#include "kernel/cuda/channel_width.cuh"
#include "kernel/decay/cuda_decay.cuh"
#include "kernel/sums/columns_cuda.h"
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

__global__ void __launch_bounds__(channel_threads)
    each_rate(const float* log_rate, int64_t heads, float* rate) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  if (i < heads) rate[i] = expf(log_rate[i]);
}

// dg becomes the gradient of z; dlog_rate: (rows, decays), each decay's part.
template <class Real>
__global__ void __launch_bounds__(channel_threads)
    each_decay_backward(const __grid_constant__ DecayAndBetaGradient<Real> d, float* dlog_rate) {
  const DecayAndBeta& op = d.op;
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t decays = op.z ? op.heads * op.size : 0;
  if (i < op.rows * decays) {
    const int64_t c = i % decays, at = i / decays * op.z_step + c;
    const float x = op.z[at] + op.bias[c], rate = op.rate[c / op.size], dg = d.dg[i];
    float by_x, by_log_rate;
    if (op.bound < 0) {
      const float s = sigmoid(rate * x);
      by_x = op.bound * s * (1.0f - s) * rate, by_log_rate = by_x * x;
    } else {
      by_x = -rate * sigmoid(x), by_log_rate = -rate * softplus(x);
    }
    d.dg[i] = dg * by_x, dlog_rate[i] = dg * by_log_rate;
    store_one(d.dz + at, dg * by_x);
  }
  if (op.z_beta && i < op.rows * op.heads) {
    const int64_t at = i / op.heads * op.beta_step + i % op.heads;
    const float s = sigmoid(op.z_beta[at]);
    store_one(d.dz_beta + at, d.dbeta[i] * op.beta_scale * s * (1.0f - s));
  }
}

}  // namespace

void decay_rates(const float* log_rate, int64_t heads, float* rate, const Gpu& gpu) {
  launch(each_rate, {blocks_for(heads), channel_threads}, gpu, log_rate, heads, rate);
}

int64_t decay_scratch(int64_t rows, int64_t decays) {
  return rows * decays + column_sums_scratch(rows, decays);
}

template <class Real>
void decay_and_beta_backward(const DecayAndBetaGradient<Real>& d, const Gpu& gpu) {
  const DecayAndBeta& op = d.op;
  const int64_t decays = op.z ? op.heads * op.size : 0;
  const int64_t elements = op.rows * op.heads * (op.z ? op.size : 1);
  if (elements == 0) return;
  float* const dlog_rate = d.scratch;
  launch(each_decay_backward<Real>, {blocks_for(elements), channel_threads}, gpu, d, dlog_rate);
  if (!op.z) return;
  float* const rest = d.scratch + op.rows * decays;
  column_sums<float>({op.rows, decays, 1, d.dg, d.dbias, rest}, gpu);
  column_sums<float>({op.rows, decays, op.size, dlog_rate, d.dlog_rate, rest}, gpu);
}

template void decay_and_beta_backward(const DecayAndBetaGradient<float>&, const Gpu&);
template void decay_and_beta_backward(const DecayAndBetaGradient<bf16>&, const Gpu&);

void decay_and_beta(const DecayAndBeta& op, const Gpu& gpu) {
  require(!op.z || (op.rate && op.bias && op.g), "decay: expected a rate, a bias and a result");
  const int64_t elements = op.rows * op.heads * (op.z ? op.size : 1);
  if (elements > 0) launch(each_decay, {blocks_for(elements), channel_threads}, gpu, op);
}

}  // namespace deltasane::kernel::cuda
