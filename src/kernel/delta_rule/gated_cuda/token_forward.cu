// Forward of a single token: a warp has some rows of a state, and a lane every 32nd channel of them.
#include "base/choose.h"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/tiles.cuh"
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
  float S[warp_rows][channels] = {}, k[channels], r[channels], recalled[warp_rows] = {},
        read[warp_rows] = {}, both = 0;
  if (op.initial)
#pragma unroll
    for (int i = 0; i < warp_rows; ++i)
#pragma unroll
      for (int c = 0; c < channels; ++c)
        S[i][c] = op.initial[(of_head * op.values + row + i) * keys + 32 * c + lane];
#pragma unroll
  for (int c = 0; c < channels; ++c) {
    const int64_t at = 32 * c + lane;
    k[c] = to_float(op.k[rows.first + at]), r[c] = to_float(op.r[rows.first + at]);
    const float g = op.rule == Rule::deltanet         ? 0.0f
                    : op.rule == Rule::gated_deltanet ? op.g[of_head]
                                                      : op.g[of_head * keys + at];
    const float w = expf(g);
    both = fmaf(k[c], r[c], both);
#pragma unroll
    for (int i = 0; i < warp_rows; ++i) {
      S[i][c] *= w;
      recalled[i] = fmaf(S[i][c], k[c], recalled[i]), read[i] = fmaf(S[i][c], r[c], read[i]);
    }
  }
  const float beta = op.beta[of_head];
  both = warp_sum(both);
#pragma unroll
  for (int i = 0; i < warp_rows; ++i) {
    const float v = to_float(op.v[of_head * op.values + row + i]);
    const float u = beta * (v - warp_sum(recalled[i]));
    const float y = fmaf(u, both, warp_sum(read[i]));
    if (lane == 0) store_one(op.y + of_head * op.values + row + i, y);
#pragma unroll
    for (int c = 0; c < channels; ++c) S[i][c] = fmaf(u, k[c], S[i][c]);
  }
  if (op.tau && (op.position + 1) % tile_size == 0)
    Tanh(op.tau[of_head]).apply([&](auto&& map) {
#pragma unroll
      for (int i = 0; i < warp_rows; ++i)
#pragma unroll
        for (int c = 0; c < channels; ++c) map(S[i][c]);
    });
  if (!op.final_state) return;
#pragma unroll
  for (int i = 0; i < warp_rows; ++i)
#pragma unroll
    for (int c = 0; c < channels; ++c)
      op.final_state[(of_head * op.values + row + i) * keys + 32 * c + lane] = S[i][c];
}

}  // namespace

void gated_token_forward(const GatedRule& op, const Gpu& gpu) {
  choose<64, 96, 128, 256>(op.keys, "key channels per head", [&]<int keys>() {
    launch(token_kernel<keys>,
           {unsigned(op.batch * op.heads * op.values / (warps * warp_rows)), 32 * warps}, gpu, op);
  });
}

}  // namespace deltasane::kernel::cuda
