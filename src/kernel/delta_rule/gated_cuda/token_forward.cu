// Forward of a single token: a warp has some rows of a state, and a lane every 32nd channel of them.
#include "base/choose.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/tiles.cuh"
#include "kernel/delta_rule/token_cuda/state_rows.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4, warp_rows = 4;

template <int keys>
__global__ __launch_bounds__(32 * warps) void token_kernel(const __grid_constant__ GatedRule op) {
  constexpr int channels = keys / 32;
  const int lane = threadIdx.x % 32, row_blocks = int(op.values) / (warps * warp_rows);
  const int64_t of_head = blockIdx.x / row_blocks, sequence = of_head / op.heads,
                head = of_head % op.heads;
  const int row = (blockIdx.x % row_blocks * warps + threadIdx.x / 32) * warp_rows;
  const Rows rows = key_rows(op, sequence, head);
  const int64_t value_at = of_head * op.values + row;
  StateRows<warp_rows, channels> state;
  state.each([&](int i, int c, float& entry) {
    entry = op.initial ? op.initial[(value_at + i) * keys + 32 * c + lane] : 0.0f;
  });
  float k[channels], r[channels], w[channels];
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    const int64_t at = 32 * c + lane;
    k[c] = to_float(op.k[rows.first + at]), r[c] = to_float(op.r[rows.first + at]);
    w[c] = op.rule == Rule::deltanet ? 1.0f
                                     : expf(op.rule == Rule::gated_deltanet ? op.g[of_head]
                                                                            : op.g[of_head * keys + at]);
  }
  state.step(
      k, r, w, op.beta[of_head], [&](int i) { return to_float(op.v[value_at + i]); },
      [&](int i, float y) {
        if (lane == 0) store_one(op.y + value_at + i, y);
      });
  if (op.tau && (op.position + 1) % tile_size == 0) state.neutralize(op.tau[of_head]);
  if (!op.final_state) return;
  state.each([&](int i, int c, float& entry) {
    op.final_state[(value_at + i) * keys + 32 * c + lane] = entry;
  });
}

}  // namespace

void gated_token_forward(const GatedRule& op, const Gpu& gpu) {
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    launch(token_kernel<keys>,
           {unsigned(op.batch * op.heads * op.values / (warps * warp_rows)), 32 * warps}, gpu, op);
  });
}

}  // namespace deltasane::kernel::cuda
