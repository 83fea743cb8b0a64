// A warp has some rows of a state, a lane every 32nd channel of them, for all tokens of a sequence.
#include "kernel/delta_rule/token_cuda/token_rule.h"

#include "base/choose.h"
#include "kernel/delta_rule/token_cuda/warp_rows.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Real, int channels>
__global__ __launch_bounds__(32 * warps) void token_by_token(const __grid_constant__
                                                              TokenRule<Real> op) {
  const int lane = threadIdx.x % 32, keys = int(op.keys), values = int(op.values);
  const RowsOfWarp<Real> mine(op);
  const int64_t head = mine.head, sequence = mine.sequence, first = mine.first;
  const int row = mine.row;
  if (row >= values) return;
  const int64_t position = op.rows.position[sequence];
  float* const state =
      op.rows.states
          ? op.rows.states[sequence] + op.state_at + (head * values + row) * int64_t(keys)
          : nullptr;
  const auto present = [&](int i, int c) { return row + i < values && 32 * c + lane < keys; };
  StateRows<warp_rows, channels> rows;
  rows.each([&](int i, int c, float& entry) {
    entry = state && present(i, c) ? state[i * keys + 32 * c + lane] : 0.0f;
  });
  for (int t = 0; t < mine.length; ++t) {
    if (op.saved && t % saved_tile == 0) {
      float* const to = mine.saved(t / saved_tile);
      rows.each([&](int i, int c, float& entry) {
        if (present(i, c)) to[i * keys + 32 * c + lane] = entry;
      });
    }
    const int64_t of_head = (first + t) * op.heads + head;
    const TokenVectors<Real, channels> of(mine, t);
    const int64_t value_at = of_head * values + row;
    rows.step(
        of.k, of.r, of.w, op.beta[of_head],
        [&](int i) { return row + i < values ? to_float(op.v[value_at + i]) : 0.0f; },
        [&](int i, float y) {
          if (lane == 0 && row + i < values) store_one(op.y + value_at + i, y);
        });
    if (op.tau && (position + t + 1) % op.chunk == 0) rows.neutralize(mine.tau(position, t));
  }
  rows.each([&](int i, int c, float& entry) {
    if (state && present(i, c)) state[i * keys + 32 * c + lane] = entry;
  });
}

}  // namespace

template <class Real>
void token_rule(const TokenRule<Real>& op, const Gpu& gpu) {
  require(op.key_heads > 0 && op.heads % op.key_heads == 0,
          "token_rule: expected a multiple of the key heads as heads");
  require(bool(op.g) == (op.rule != Rule::deltanet), "token_rule: expected the rule's inputs");
  const int64_t blocks = op.heads * row_blocks(op.values);
  const int64_t of_lane = (op.keys + 31) / 32;
  choose<1, 2, 3, 4, 5, 6, 7, 8>(of_lane, "32 key channels per head", [&]<int channels>() {
    launch(token_by_token<Real, channels>,
           {dim3(unsigned(blocks), unsigned(op.rows.sequences)), 32 * warps}, gpu, op);
  });
}

template <class Real>
int64_t token_rule_states(const TokenRule<Real>& op) {
  return op.rows.sequences * op.heads * saved_tiles(op.rows.longest) * op.values * op.keys;
}

template int64_t token_rule_states(const TokenRule<float>&);
template int64_t token_rule_states(const TokenRule<bf16>&);
template void token_rule(const TokenRule<float>&, const Gpu&);
template void token_rule(const TokenRule<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
