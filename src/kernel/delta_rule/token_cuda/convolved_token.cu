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

// The convolution of a channel but for the token itself.
struct Convolution {
  float sum = 0, last = 0;  // last: the weight of the token
  __device__ void begin(const ConvolvedToken& op, const float* before, int64_t channels,
                        int64_t channel) {
    for (int64_t j = 0; j + 1 < op.taps; ++j)
      sum = fmaf(op.convolution[j * channels + channel], before[j * channels + channel], sum);
    last = op.convolution[(op.taps - 1) * channels + channel];
  }
  __device__ float end(float x) const {
    const float all = fmaf(last, x, sum);
    return all * sigmoid(all);
  }
};

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
  // No kernel in front of this one writes the state, or the tokens before, for this token.
  StateRows<warp_rows, channels> rows;
  rows.each([&](int i, int c, float& entry) {
    entry = present(i, c) ? state[i * keys + 32 * c + lane] : 0.0f;
  });
  constexpr int turns = (32 * channels + 32 * warps - 1) / (32 * warps);  // of the block over keys
  const int64_t of_keys = op.key_heads * op.keys, all = 2 * of_keys + op.heads * op.values;
  const int64_t r_at = key_head * keys, k_at = of_keys + r_at;
  const int64_t v_at = 2 * of_keys + head * values + first + int64_t(threadIdx.x);
  const bool has_v = threadIdx.x < block_rows && first + int(threadIdx.x) < values;
  Convolution of_r[turns], of_k[turns], of_v;
  const auto each_key = [&](auto&& use) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn) {
      const int c = int(threadIdx.x) + turn * 32 * warps;
      if (c < keys) use(turn, c);
    }
  };
  const float* const before = numbers + op.inputs_at;
  each_key([&](int turn, int c) {
    of_r[turn].begin(op, before, all, r_at + c), of_k[turn].begin(op, before, all, k_at + c);
  });
  if (has_v) of_v.begin(op, before, all, v_at);
  const float bias = op.decay_at >= 0 ? op.bias[head] : 0.0f,
              rate = op.decay_at >= 0 ? op.rate[head] : 0.0f;
  const bool neutralizes = (op.alpha > 0 || op.tau > 0) &&
                           (op.rows.position[sequence] + 1) % op.chunk == 0;
  grid_dependency_synchronize();

  const float* const x = op.in + sequence * op.step;
  const auto number_of_head = [&](int64_t at) { return at >= 0 ? x[at + head] : 0.0f; };
  // Loads of all inputs come before the first use of one.
  const float for_decay = number_of_head(op.decay_at), for_beta = number_of_head(op.beta_at),
              for_tau = number_of_head(op.alpha > 0 ? op.tau_at : -1);
  each_key([&](int turn, int c) {
    shared_r[c] = of_r[turn].end(x[r_at + c]), shared_k[c] = of_k[turn].end(x[k_at + c]);
  });
  if (has_v) shared_v[threadIdx.x] = of_v.end(x[v_at]);
  __syncthreads();

  float k[channels], r[channels], w[channels], squares[2] = {};
  float decay = 1;
  if (op.decay_at >= 0) decay = expf(log_decay(for_decay + bias, rate, op.bound));
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    const int at = 32 * c + lane;
    k[c] = at < keys ? shared_k[at] : 0.0f, r[c] = at < keys ? shared_r[at] : 0.0f, w[c] = decay;
    squares[0] = fmaf(r[c], r[c], squares[0]), squares[1] = fmaf(k[c], k[c], squares[1]);
  }
  const float r_scale = 1.0f / sqrtf(float(keys)) / sqrtf(warp_sum(squares[0]) + op.l2_eps);
  const float k_scale = 1.0f / sqrtf(warp_sum(squares[1]) + op.l2_eps);
#pragma unroll
  for (int c = 0; c < channels; ++c) r[c] *= r_scale, k[c] *= k_scale;

  const float beta = op.beta_at >= 0 ? op.beta_scale * sigmoid(for_beta) : 1.0f;
  float* const y = op.y + (sequence * op.heads + head) * values + row;
  rows.step(
      k, r, w, beta, [&](int i) { return row + i < values ? shared_v[row - first + i] : 0.0f; },
      [&](int i, float result) {
        if (lane == 0 && row + i < values) y[i] = result;
      });
  if (neutralizes) rows.neutralize(op.alpha > 0 ? tau_of(for_tau, op.alpha) : op.tau);
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
    prefer_shared_carveout(step_token<channels>);
    launch_dependent(step_token<channels>,
                     {dim3(unsigned(blocks), unsigned(op.rows.sequences)), 32 * warps}, gpu, op);
  });
}

}  // namespace deltasane::kernel::cuda
