// A warp has some rows of a state, a lane every 32nd channel of them, for all tokens of a sequence.
#include "kernel/delta_rule/token_cuda/token_rule.h"

#include "base/choose.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/delta_rule/token_cuda/state_rows.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4, warp_rows = 4;

template <class Real, int channels>
__global__ __launch_bounds__(32 * warps) void token_by_token(const __grid_constant__
                                                              TokenRule<Real> op) {
  const int lane = threadIdx.x % 32, keys = int(op.keys), values = int(op.values);
  const int row_blocks = (values + warps * warp_rows - 1) / (warps * warp_rows);
  const int64_t head = blockIdx.x / row_blocks, sequence = blockIdx.y;
  const int row = (int(blockIdx.x) % row_blocks * warps + int(threadIdx.x) / 32) * warp_rows;
  if (row >= values) return;
  const int64_t key_head = head / (op.heads / op.key_heads);
  const int64_t first = op.rows.first[sequence], position = op.rows.position[sequence];
  const int length = op.rows.length[sequence];
  float* const state =
      op.rows.states[sequence] + op.state_at + (head * values + row) * int64_t(keys);
  const auto present = [&](int i, int c) { return row + i < values && 32 * c + lane < keys; };
  StateRows<warp_rows, channels> rows;
  rows.each([&](int i, int c, float& entry) {
    entry = present(i, c) ? state[i * keys + 32 * c + lane] : 0.0f;
  });
  for (int t = 0; t < length; ++t) {
    const int64_t key_at = ((first + t) * op.key_heads + key_head) * keys;
    const int64_t of_head = (first + t) * op.heads + head;
    const float of_all = op.rule == Rule::gated_deltanet ? expf(op.g[of_head]) : 1.0f;
    float k[channels], r[channels], w[channels];
#pragma unroll
    for (int c = 0; c < channels; ++c) {
      const int at = 32 * c + lane;
      const bool mine = at < keys;
      k[c] = mine ? to_float(op.k[key_at + at]) : 0.0f;
      r[c] = mine ? to_float(op.r[key_at + at]) : 0.0f;
      w[c] = op.rule == Rule::kda && mine ? expf(op.g[of_head * keys + at]) : of_all;
    }
    const int64_t value_at = of_head * values + row;
    rows.step(
        k, r, w, op.beta[of_head],
        [&](int i) { return row + i < values ? to_float(op.v[value_at + i]) : 0.0f; },
        [&](int i, float y) {
          if (lane == 0 && row + i < values) store_one(op.y + value_at + i, y);
        });
    if (op.tau && (position + t + 1) % op.chunk == 0) rows.neutralize(op.tau[of_head]);
  }
  rows.each([&](int i, int c, float& entry) {
    if (present(i, c)) state[i * keys + 32 * c + lane] = entry;
  });
}

}  // namespace

template <class Real>
void token_rule(const TokenRule<Real>& op, const Gpu& gpu) {
  require(op.key_heads > 0 && op.heads % op.key_heads == 0,
          "token_rule: expected a multiple of the key heads as heads");
  require(bool(op.g) == (op.rule != Rule::deltanet), "token_rule: expected the rule's inputs");
  const int64_t blocks = op.heads * ((op.values + warps * warp_rows - 1) / (warps * warp_rows));
  const int64_t of_lane = (op.keys + 31) / 32;
  choose<1, 2, 3, 4, 5, 6, 7, 8>(of_lane, "32 key channels per head", [&]<int channels>() {
    launch(token_by_token<Real, channels>,
           {dim3(unsigned(blocks), unsigned(op.rows.sequences)), 32 * warps}, gpu, op);
  });
}

template void token_rule(const TokenRule<float>&, const Gpu&);
template void token_rule(const TokenRule<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
