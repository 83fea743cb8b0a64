// Backward through y = S r and S = S' + u k', where S' = S_before diag(w), u = beta e, e = v - S' k.
// With D, the gradient of S, of every row of S:
//
//     D += dy r'      dr += dy S      du = D k      dv = beta du      dbeta += e du
//     dk += u D - beta du S'          D -= beta du k'       dg += D S'       D = D diag(w)
//
// A warp has some rows, from the last token to the first. The states before the tokens of a tile are
// computed again from the one that forward saved, and held. Gradients of what all rows read are sums
// over the rows of a block, and then over blocks, in their order.
#include <algorithm>

#include "base/choose.h"
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/token_cuda/warp_rows.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {

// What the blocks of a head's rows leave: (blocks, sequences, time, head, ...).
struct TokenParts {
  float *dr, *dk, *dg;     // (..., key); dg: of kda
  float *dbeta, *dg_head;  // (...)
  float* dtau;             // (blocks, sequences, chunks, head)
  float* held;             // (sequences, head, row, 16, key): states before a tile's tokens
};

namespace {

constexpr int64_t floats_at_once = int64_t(1) << 27;
constexpr int threads = 32 * warps;

struct PartSizes {
  int64_t vectors, numbers, taus, held;
  template <class Real>
  explicit PartSizes(const TokenRule<Real>& op) {  // of one sequence
    const int64_t blocks = row_blocks(op.values);
    numbers = blocks * op.rows.longest * op.heads, vectors = numbers * op.keys;
    taus = blocks * op.chunks * op.heads;
    held = op.heads * blocks * warps * warp_rows * saved_tile * op.keys;
  }
  int64_t floats() const { return 3 * vectors + 2 * numbers + taus + held; }
  TokenParts placed(float* at, int64_t sequences) const {
    TokenParts parts{};
    const auto place = [&](float*& to, int64_t count) { to = at, at += count * sequences; };
    place(parts.dr, vectors), place(parts.dk, vectors), place(parts.dg, vectors);
    place(parts.dbeta, numbers), place(parts.dg_head, numbers), place(parts.dtau, taus);
    place(parts.held, held);
    return parts;
  }
};
template <class Real>
int64_t sequences_at_once(const TokenRule<Real>& op) {
  return std::clamp<int64_t>(floats_at_once / PartSizes(op).floats(), 1, op.rows.sequences);
}

// Sums over the warps of a block: to[channel], or one number.
template <int channels>
struct WarpSums {
  float (&of_warp)[warps][32 * channels];
  template <class Store>
  __device__ void operator()(const float (&x)[channels], int keys, Store&& store) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    __syncthreads();  // the sums before are taken
#pragma unroll
    for (int c = 0; c < channels; ++c) of_warp[warp][32 * c + lane] = x[c];
    __syncthreads();
    for (int at = threadIdx.x; at < keys; at += threads) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < warps; ++i) sum += of_warp[i][at];
      store(at, sum);
    }
  }
};

template <class Real, int channels>
__global__ __launch_bounds__(threads) void token_backward(
    const __grid_constant__ TokenRule<Real> op, const __grid_constant__ TokenRuleGradient<Real> d,
    const __grid_constant__ TokenParts parts, int64_t first_sequence) {
  __shared__ float of_warp[warps][32 * channels];
  WarpSums<channels> sums{of_warp};
  const int lane = threadIdx.x % 32, keys = int(op.keys), values = int(op.values);
  const RowsOfWarp<Real> mine(op, first_sequence);
  const int64_t here = blockIdx.y, sequences = gridDim.y, time = op.rows.longest;
  const auto present = [&](int i, int c) { return mine.row + i < values && 32 * c + lane < keys; };
  const int64_t own_rows = row_blocks(values) * warps * warp_rows;
  float* const held =
      parts.held + ((here * op.heads + mine.head) * own_rows + mine.row) * saved_tile * keys;
  const auto held_at = [&](int64_t token, int i, int c) -> float& {
    return held[(i * saved_tile + token) * keys + 32 * c + lane];
  };
  StateRows<warp_rows, channels> rows, D;
  D.each([](int, int, float& entry) { entry = 0; });
  for (int64_t tile = saved_tiles(mine.length) - 1; tile >= 0; --tile) {
    const int64_t begin = tile * saved_tile, end = min(int64_t(mine.length), begin + saved_tile);
    const float* const saved = mine.saved(tile);
    rows.each([&](int i, int c, float& entry) {
      entry = present(i, c) ? saved[i * keys + 32 * c + lane] : 0.0f;
    });
    const auto value = [&](int64_t t, int i) {
      const int64_t at = ((mine.first + t) * op.heads + mine.head) * values + mine.row + i;
      return mine.row + i < values ? to_float(op.v[at]) : 0.0f;
    };
    const auto ends_chunk = [&](int64_t t) { return op.tau && (t + 1) % op.chunk == 0; };
    for (int64_t t = begin; t < end; ++t) {
      rows.each([&](int i, int c, float& entry) {
        if (present(i, c)) held_at(t - begin, i, c) = entry;
      });
      if (t + 1 == end) break;
      const TokenVectors<Real, channels> of(mine, t);
      rows.step(
          of.k, of.r, of.w, op.beta[(mine.first + t) * op.heads + mine.head],
          [&](int i) { return value(t, i); }, [](int, float) {});
      if (ends_chunk(t)) rows.neutralize(mine.tau(0, t));
    }
    for (int64_t t = end - 1; t >= begin; --t) {
      const TokenVectors<Real, channels> of(mine, t);
      const int64_t of_head = (mine.first + t) * op.heads + mine.head;
      const float beta = op.beta[of_head];
      rows.each([&](int i, int c, float& entry) {  // S'
        entry = present(i, c) ? held_at(t - begin, i, c) * of.w[c] : 0.0f;
      });
      float e[warp_rows];
      StateRows<warp_rows, channels> after = rows;  // S
#pragma unroll
      for (int i = 0; i < warp_rows; ++i) {
        float recalled = 0;
#pragma unroll
        for (int c = 0; c < channels; ++c) recalled = fmaf(rows.S[i][c], of.k[c], recalled);
        e[i] = value(t, i) - warp_sum(recalled);
#pragma unroll
        for (int c = 0; c < channels; ++c)
          after.S[i][c] = fmaf(beta * e[i], of.k[c], after.S[i][c]);
      }
      // dr, dk, dg and dbeta, dg of the head, dtau
      float dr[channels] = {}, dk[channels] = {}, dg[channels] = {}, dbeta = 0, dtau = 0;
      if (ends_chunk(t)) {
        const float tau = mine.tau(0, t), inverse = 1.0f / tau;
        StateRows<warp_rows, channels> bounded = after;
        bounded.neutralize(tau);
        D.each([&](int i, int c, float& entry) {
          const float x = bounded.S[i][c] * inverse, q = x * x;
          dtau = fmaf(entry * x, q * tau_derivative_any(q), dtau);
          entry = state_derivative(q, entry);
        });
      }
#pragma unroll
      for (int i = 0; i < warp_rows; ++i) {
        const bool has = mine.row + i < values;
        const int64_t at = of_head * values + mine.row + i;
        const float dy = has ? to_float(d.dy[at]) : 0.0f;
        float du = 0;
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          D.S[i][c] = fmaf(dy, of.r[c], D.S[i][c]);
          dr[c] = fmaf(dy, after.S[i][c], dr[c]);
          du = fmaf(D.S[i][c], of.k[c], du);
        }
        du = warp_sum(du);
        dbeta = fmaf(e[i], du, dbeta);
        if (lane == 0 && has) store_one(d.dv + at, beta * du);
#pragma unroll
        for (int c = 0; c < channels; ++c) {
          dk[c] = fmaf(beta * e[i], D.S[i][c], fmaf(-beta * du, rows.S[i][c], dk[c]));
          D.S[i][c] = fmaf(-beta * du, of.k[c], D.S[i][c]);
          dg[c] = fmaf(D.S[i][c], rows.S[i][c], dg[c]);
          D.S[i][c] *= of.w[c];
        }
      }
      const int64_t place = ((mine.block * sequences + here) * time + t) * op.heads + mine.head;
      sums(dr, keys, [&](int c, float sum) { parts.dr[place * keys + c] = sum; });
      sums(dk, keys, [&](int c, float sum) { parts.dk[place * keys + c] = sum; });
      if (op.rule == Rule::kda)
        sums(dg, keys, [&](int c, float sum) { parts.dg[place * keys + c] = sum; });
      float dg_head = 0;
#pragma unroll
      for (int c = 0; c < channels; ++c) dg_head += dg[c];
      float numbers[channels] = {};  // of the first lanes
      dg_head = warp_sum(dg_head), dtau = warp_sum(dtau);
      numbers[0] = lane == 0 ? dbeta : lane == 1 ? dg_head : dtau;
      sums(numbers, 3, [&](int which, float sum) {
        if (which == 0) parts.dbeta[place] = sum;
        if (which == 1) parts.dg_head[place] = sum;
        if (which == 2 && ends_chunk(t))
          parts.dtau[((mine.block * sequences + here) * op.chunks + t / op.chunk) * op.heads +
                     mine.head] = sum;
      });
    }
  }
}

// to[i] = the sum over blocks and over the `group` heads that share it; a head has `size` numbers.
template <class Real>
__global__ __launch_bounds__(threads) void add_parts(const float* parts, int64_t blocks,
                                                     int64_t count, int64_t group, int64_t size,
                                                     Real* to) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int64_t h = 0; h < group; ++h)
    for (int64_t b = 0; b < blocks; ++b)
      sum += parts[b * count * group + (i / size * group + h) * size + i % size];
  store_one(to + i, sum);
}

}  // namespace

template <class Real>
int64_t token_rule_scratch(const TokenRule<Real>& op) {
  return PartSizes(op).floats() * sequences_at_once(op);
}

template <class Real>
void token_rule_backward(const TokenRule<Real>& op, const TokenRuleGradient<Real>& d,
                         const Gpu& gpu) {
  require(op.saved && d.dy && d.dr && d.dk && d.dv && d.dbeta && d.scratch && (!op.g || d.dg) &&
              (!op.tau || (d.dtau && op.chunks > 0)),
          "token_rule_backward: expected all gradients");
  const int64_t time = op.rows.longest, blocks = row_blocks(op.values);
  require(op.rows.rows == op.rows.sequences * time, "token_rule_backward: expected equal lengths");
  const int64_t at_once = sequences_at_once(op);
  for (int64_t from = 0; from < op.rows.sequences; from += at_once) {
    const int64_t some = std::min(at_once, op.rows.sequences - from), rows = some * time;
    const TokenParts parts = PartSizes(op).placed(d.scratch, some);
    choose<1, 2, 3, 4, 5, 6, 7, 8>(
        (op.keys + 31) / 32, "32 key channels per head", [&]<int channels>() {
          launch(token_backward<Real, channels>,
                 {dim3(unsigned(op.heads * blocks), unsigned(some)), threads}, gpu, op, d, parts,
                 from);
        });
    const auto add = [&]<class To>(const float* of, int64_t count, int64_t group, int64_t size,
                                   To* to) {
      if (count > 0)
        launch(add_parts<To>, {unsigned((count + threads - 1) / threads), threads}, gpu, of, blocks,
               count, group, size, to);
    };
    const int64_t key_numbers = rows * op.key_heads * op.keys, group = op.heads / op.key_heads;
    const int64_t keys_from = from * time * op.key_heads * op.keys, heads = rows * op.heads;
    const int64_t heads_from = from * time * op.heads;
    add(parts.dr, key_numbers, group, op.keys, d.dr + keys_from);
    add(parts.dk, key_numbers, group, op.keys, d.dk + keys_from);
    add(parts.dbeta, heads, 1, 1, d.dbeta + heads_from);
    if (op.rule == Rule::gated_deltanet) add(parts.dg_head, heads, 1, 1, d.dg + heads_from);
    if (op.rule == Rule::kda) add(parts.dg, heads * op.keys, 1, 1, d.dg + heads_from * op.keys);
    if (op.tau)
      add(parts.dtau, some * op.chunks * op.heads, 1, 1, d.dtau + from * op.chunks * op.heads);
  }
}

template int64_t token_rule_scratch(const TokenRule<float>&);
template int64_t token_rule_scratch(const TokenRule<bf16>&);
template void token_rule_backward(const TokenRule<float>&, const TokenRuleGradient<float>&,
                                  const Gpu&);
template void token_rule_backward(const TokenRule<bf16>&, const TokenRuleGradient<bf16>&,
                                  const Gpu&);

}  // namespace deltasane::kernel::cuda
