// A block has 16 rows of a head's state, a warp four of them, as in token_rule.cu. Every block makes
// q and k of its head for itself.
#include "kernel/delta_rule/token_cuda/convolved_token.h"

#include "base/choose.h"
#include "kernel/decay/cuda_decay.cuh"
#include "kernel/delta_rule/token_cuda/state_rows.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4, warp_rows = 4, block_rows = warps * warp_rows, most_keys = 256;

__device__ float convolved(const ConvolvedToken& op, const float* x, const float* before,
                           int64_t channels, int64_t channel) {
  float sum = 0;
  for (int64_t j = 0; j + 1 < op.taps; ++j)
    sum = fmaf(op.convolution[j * channels + channel], before[j * channels + channel], sum);
  sum = fmaf(op.convolution[(op.taps - 1) * channels + channel], x[channel], sum);
  return sum * sigmoid(sum);
}

template <int channels>
__global__ void __launch_bounds__(32 * warps)
    step_token(const __grid_constant__ ConvolvedToken op) {
  __shared__ float shared_r[most_keys], shared_k[most_keys], shared_v[block_rows];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int keys = int(op.keys), values = int(op.values);
  const int row_blocks = (values + block_rows - 1) / block_rows;
  const int64_t head = blockIdx.x / row_blocks, sequence = blockIdx.y;
  const int first = int(blockIdx.x) % row_blocks * block_rows, row = first + warp * warp_rows;
  const int64_t key_head = head / (op.heads / op.key_heads);
  float* const numbers = op.rows.states[sequence];
  float* const state = numbers + op.state_at + (head * values + row) * int64_t(keys);
  const auto present = [&](int i, int c) { return row + i < values && 32 * c + lane < keys; };
  trigger_dependent_launch();
  // No kernel in front of this one writes the state for this token.
  StateRows<warp_rows, channels> rows;
  rows.each([&](int i, int c, float& entry) {
    entry = present(i, c) ? state[i * keys + 32 * c + lane] : 0.0f;
  });
  grid_dependency_synchronize();

  const float* const x = op.in + sequence * op.step;
  const int64_t of_keys = op.key_heads * op.keys, all = 2 * of_keys + op.heads * op.values;
  const auto channel_of = [&](int64_t channel) {
    return convolved(op, x, numbers + op.inputs_at, all, channel);
  };
  for (int c = int(threadIdx.x); c < keys; c += 32 * warps) {
    shared_r[c] = channel_of(key_head * keys + c);
    shared_k[c] = channel_of(of_keys + key_head * keys + c);
  }
  if (threadIdx.x < block_rows && first + int(threadIdx.x) < values)
    shared_v[threadIdx.x] = channel_of(2 * of_keys + head * values + first + int(threadIdx.x));
  __syncthreads();

  float k[channels], r[channels], w[channels], squares[2] = {};
  float decay = 1;
  if (op.decay_at >= 0)
    decay = expf(log_decay(x[op.decay_at + head] + op.bias[head], op.rate[head], op.bound));
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    const int at = 32 * c + lane;
    k[c] = at < keys ? shared_k[at] : 0.0f, r[c] = at < keys ? shared_r[at] : 0.0f, w[c] = decay;
    squares[0] = fmaf(r[c], r[c], squares[0]), squares[1] = fmaf(k[c], k[c], squares[1]);
  }
  const float of_r = 1.0f / sqrtf(float(keys)) / sqrtf(warp_sum(squares[0]) + op.l2_eps);
  const float of_k = 1.0f / sqrtf(warp_sum(squares[1]) + op.l2_eps);
#pragma unroll
  for (int c = 0; c < channels; ++c) r[c] *= of_r, k[c] *= of_k;

  const float beta = op.beta_at >= 0 ? op.beta_scale * sigmoid(x[op.beta_at + head]) : 1.0f;
  float* const y = op.y + (sequence * op.heads + head) * values + row;
  rows.step(
      k, r, w, beta, [&](int i) { return row + i < values ? shared_v[row - first + i] : 0.0f; },
      [&](int i, float result) {
        if (lane == 0 && row + i < values) y[i] = result;
      });
  if ((op.alpha > 0 || op.tau > 0) && (op.rows.position[sequence] + 1) % op.chunk == 0)
    rows.neutralize(op.alpha > 0 ? tau_of(x[op.tau_at + head], op.alpha) : op.tau);
  rows.each([&](int i, int c, float& entry) {
    if (present(i, c)) state[i * keys + 32 * c + lane] = entry;
  });
}

}  // namespace

void convolved_token(const ConvolvedToken& op, const Gpu& gpu) {
  require(op.rule != Rule::kda && (op.decay_at >= 0) == (op.rule == Rule::gated_deltanet),
          "convolved_token: expected a rule with one decay for a head, or none, and its inputs");
  require(op.key_heads > 0 && op.heads % op.key_heads == 0 && op.keys <= most_keys,
          "convolved_token: expected a multiple of the key heads as heads, of up to 256 channels");
  const int64_t blocks = op.heads * ((op.values + block_rows - 1) / block_rows);
  choose<1, 2, 3, 4, 5, 6, 7, 8>((op.keys + 31) / 32, "32 key channels per head", [&]<int channels>() {
    launch_dependent(step_token<channels>,
                     {dim3(unsigned(blocks), unsigned(op.rows.sequences)), 32 * warps}, gpu, op);
  });
}

}  // namespace deltasane::kernel::cuda
