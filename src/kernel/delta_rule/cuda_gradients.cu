// The gradients of a tile, given its first state S0 and the gradient G of its last one: a block per
// tile, all tiles at once.
//
// In the names of cuda_chunks.cu, with D = G diag(W), the gradient of S0 + SA' B~ + V' K~:
//
//     Z   = (I - AB)^-T (RB' dY + B~ D')                     the gradient of A~ S0' + AK V
//     dV  = AK' Z + RK' dY + K~ D'
//     ZSA ZV over YSA YV: the lower parts of (Z, dY) (SA, V)', those of Z without the diagonal
//     dA~ = Z S0  + ZSA B~ + ZV K~                           dR~ = dY S0 + YSA B~ + YV K~
//     dB~ = SA D  + ZSA' A~ + YSA' R~                        dK~ = V D   + ZV' A~ + YV' R~
//
// The gradient of log w_t is the sum over t' >= t of those of log W_t', where a~_t has W_t-1, r~_t
// has W_t, b~_t and k~_t have 1 / W_t, and the last state has the last W:
//
//     dlog w_t = sum_i (D S0)_i + sum_s<t (SA D)_s b~_s + (V D)_s k~_s
//              + sum_t'>=t dr~ r~ + sum_t'>t da~ a~ - sum_s>=t (dB~ - SA D)_s b~_s + (dK~ - V D)_s
//              k~_s
//
// all per key channel.
#include "kernel/delta_rule/cuda_parts.h"
#include "kernel/delta_rule/cuda_split.cuh"
#include "kernel/delta_rule/cuda_tile.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, pair_rows = 2 * tile_tokens, padded = head_size + 4;

template <class Real>
constexpr int planes_for = 2;
template <>
constexpr int planes_for<float> = 3;

template <int planes>
struct GradientMemory {
  using Pair = SplitMatrix<planes, pair_rows, head_size>;
  using Square = SplitMatrix<planes, head_size, head_size>;
  Pair reads;   // A~ over R~
  Pair writes;  // B~ over K~
  Pair given;   // SA over V
  Pair asked;   // Z over dY
  union {
    Square first;                      // S0
    float through[pair_rows][padded];  // SA D over V D, when S0 is not needed any more
  };
  Square last;                                      // D
  SplitMatrix<planes, pair_rows, pair_rows> pairs;  // (Z, dY) (SA, V)', lower
  float products[pair_rows][pair_rows + 4];         // AB AK over RB RK
  float w[tile_tokens][padded];
  float decay[head_size];
  float decay_sums[head_size];  // of D S0
  union {
    struct {
      float start[tile_tokens][padded];  // A~ S0'
      float end[pair_rows][padded];      // (B~, K~) D'
      float column_sums[16][head_size];  // of D S0, in parts
    } state;
    struct {
      float reads[pair_rows][padded], writes[pair_rows][padded];  // dA~ over dR~; dB~ over dK~
    } d;
  };
};

__device__ void read_row(const float* from, float (&to)[tile_tokens]) {
#pragma unroll
  for (int i = 0; i < tile_tokens; i += 4) {
    const float4 four = *reinterpret_cast<const float4*>(from + i);
    to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
  }
}

template <class Real>
__global__ __launch_bounds__(threads, planes_for<Real> == 2
                                          ? 2
                                          : 1) void gradients_kernel(ReversePass<Real> pass) {
  constexpr int planes = planes_for<Real>;
  extern __shared__ float4 raw_memory[];
  using Memory = GradientMemory<planes>;
  Memory& memory = *reinterpret_cast<Memory*>(raw_memory);
  const DeltaRule<Real>& op = pass.op;
  const DeltaRuleGradient<Real>& out = pass.gradient;
  const int64_t tiles = (op.time + tile_tokens - 1) / tile_tokens;
  const int64_t index = blockIdx.x % tiles, of_head = blockIdx.x / tiles;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int count = int(min(op.time - index * tile_tokens, int64_t(tile_tokens)));
  const int warp = threadIdx.x / 32;
  // Half of the threads have what reads the state, half what is written to it; each one token and
  // 8 channels.
  const bool reads = threadIdx.x < threads / 2;
  const int mine = threadIdx.x % (threads / 2) / 8, part = threadIdx.x % 8 * 8;
  const bool present = mine < count;
  const int64_t place =
      ((sequence * op.time + index * tile_tokens + mine) * op.heads + head) * head_size + part;

  if (op.tau && threadIdx.x == 0 && count == tile_tokens) {
    const int64_t chunks = op.time / tile_tokens;
    const float4 p =
        __ldg(reinterpret_cast<const float4*>(pass.dtau_parts) + of_head * chunks + index);
    out.dtau[(sequence * chunks + index) * op.heads + head] = p.x + p.y + p.z + p.w;
  }
  // S0 and G are asked for first: 4 rows and 4 columns each.
  constexpr int state_rows = 4;
  const int state_column = threadIdx.x % 16 * 4, state_row = threadIdx.x / 16;
  float4 first[state_rows], last[state_rows];
  {
    const float* const from = pass.states + (of_head * (tiles + 1) + index) * state_entries +
                              state_row * head_size + state_column;
    const float* const dfrom =
        pass.dstates + int64_t(blockIdx.x) * state_entries + state_row * head_size + state_column;
#pragma unroll
    for (int i = 0; i < state_rows; ++i) {
      first[i] = __ldg(reinterpret_cast<const float4*>(from + i * 16 * head_size));
      last[i] = __ldg(reinterpret_cast<const float4*>(dfrom + i * 16 * head_size));
    }
  }
  float own[2][8] = {};  // a, r or b, k
  if (present) {
    Eight<Real> eight;
    eight.load((reads ? op.a : op.b) + place), eight.unpack(own[0]);
    eight.load((reads ? op.r : op.k) + place), eight.unpack(own[1]);
    float x[8];
    eight.load((reads ? out.dy : op.v) + place), eight.unpack(x);
    (reads ? memory.asked : memory.given).set(tile_tokens + mine, part, x);
    if (reads) {
      Eight<float> w;
      w.load(op.w + place), w.unpack(x);
      store_floats(&memory.w[mine][part], x);
    }
  } else {
    const float zero[8] = {}, one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    (reads ? memory.asked : memory.given).set(tile_tokens + mine, part, zero);
    if (reads) store_floats(&memory.w[mine][part], one);
  }
  __syncthreads();
  // W_t-1 and W_t of this thread's token and channels, or 1 / W_t twice. Made again at the end:
  // they would be in the way in between.
  const auto factors = [&](float(&before)[8], float(&decay)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) before[i] = decay[i] = 1;
#pragma unroll
    for (int t = 0; t < tile_tokens; t += 2) {
      if (t > mine) break;
      float w[2][8];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const float4 low = *reinterpret_cast<float4*>(&memory.w[t + n][part]);
        const float4 high = *reinterpret_cast<float4*>(&memory.w[t + n][part + 4]);
        w[n][0] = low.x, w[n][1] = low.y, w[n][2] = low.z, w[n][3] = low.w;
        w[n][4] = high.x, w[n][5] = high.y, w[n][6] = high.z, w[n][7] = high.w;
      }
#pragma unroll
      for (int n = 0; n < 2; ++n)
        if (t + n <= mine)
#pragma unroll
          for (int i = 0; i < 8; ++i) before[i] = decay[i], decay[i] *= w[n][i];
    }
    if (mine == tile_tokens - 1 && reads)
#pragma unroll
      for (int i = 0; i < 8; ++i) memory.decay[part + i] = decay[i];
    if (!reads)
#pragma unroll
      for (int i = 0; i < 8; ++i) before[i] = decay[i] = reciprocal(decay[i]);
  };
  {
    float before[8], decay[8];
    factors(before, decay);
#pragma unroll
    for (int i = 0; i < 8; ++i) own[0][i] *= before[i], own[1][i] *= decay[i];
    (reads ? memory.reads : memory.writes).set(mine, part, own[0]);
    (reads ? memory.reads : memory.writes).set(tile_tokens + mine, part, own[1]);
  }
  __syncthreads();
  {
    float sum[4] = {};
#pragma unroll
    for (int i = 0; i < state_rows; ++i) {
      const float S[4] = {first[i].x, first[i].y, first[i].z, first[i].w};
      float D[4] = {last[i].x, last[i].y, last[i].z, last[i].w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        D[j] *= memory.decay[state_column + j];
        sum[j] = fmaf(D[j], S[j], sum[j]);
      }
      memory.first.set(state_row + 16 * i, state_column, S);
      memory.last.set(state_row + 16 * i, state_column, D);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) memory.state.column_sums[state_row][state_column + j] = sum[j];
  }
  __syncthreads();
  const auto write = [](float* to, int stride, const Sums& sums) {
    sums.each([&](int row, int column, float x, float y) {
      *reinterpret_cast<float2*>(to + row * stride + column) = {x, y};
    });
  };
  if (warp < 4) {
    Sums sums;
    const int row = warp % 2 * 16, column = warp / 2 * 16;
    multiply<Lies::straight, Lies::transposed, head_size>(sums, memory.reads, row, memory.writes,
                                                          column);
    write(&memory.products[row][column], pair_rows + 4, sums);
  } else {
    Sums sums;
    const int column = (warp - 4) * 16;
    multiply<Lies::straight, Lies::transposed, head_size>(sums, memory.reads, 0, memory.first,
                                                          column);
    write(&memory.state.start[0][column], padded, sums);
  }
  const int row = warp % 2 * 16, column = warp / 2 * 16;  // of 32 x 64 sums, a warp has 16 x 16
  {
    Sums sums;
    multiply<Lies::straight, Lies::transposed, head_size>(sums, memory.writes, row, memory.last,
                                                          column);
    write(&memory.state.end[row][column], padded, sums);
  }
  __syncthreads();
  if (threadIdx.x < head_size) {  // SA, a column each; four sums for a token, to wait less
    const int i = threadIdx.x;
    float v[tile_tokens], sa[tile_tokens], line[tile_tokens];
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) v[t] = memory.given.get(tile_tokens + t, i);
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      float sum[4] = {memory.state.start[t][i], 0, 0, 0};
      read_row(&memory.products[t][tile_tokens], line);
#pragma unroll
      for (int s = 0; s < t; ++s) sum[s % 4] = fmaf(line[s], v[s], sum[s % 4]);
      read_row(&memory.products[t][0], line);
#pragma unroll
      for (int s = 0; s < t; ++s) sum[s % 4] = fmaf(line[s], sa[s], sum[s % 4]);
      sa[t] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      memory.given.set(t, i, sa[t]);
    }
  } else if (threadIdx.x < 2 * head_size) {  // Z
    const int i = threadIdx.x - head_size;
    float z[tile_tokens], line[tile_tokens];
#pragma unroll
    for (int s = 0; s < tile_tokens; ++s) z[s] = memory.state.end[s][i];
#pragma unroll
    for (int t = tile_tokens - 1; t >= 0; --t) {
      const float dy = memory.asked.get(tile_tokens + t, i);
      read_row(&memory.products[tile_tokens + t][0], line);
#pragma unroll
      for (int s = 0; s <= t; ++s) z[s] = fmaf(line[s], dy, z[s]);
      // z[t] has met all later tokens
      read_row(&memory.products[t][0], line);
#pragma unroll
      for (int s = 0; s < t; ++s) z[s] = fmaf(line[s], z[t], z[s]);
      memory.asked.set(t, i, z[t]);
    }
  } else if (threadIdx.x < 3 * head_size) {
    const int i = threadIdx.x - 2 * head_size;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < 16; ++n) sum += memory.state.column_sums[n][i];
    memory.decay_sums[i] = sum;
  }
  __syncthreads();
  Sums dreads, dwrites;
  multiply<Lies::straight, Lies::straight, head_size>(dreads, memory.asked, row, memory.first,
                                                      column);
  multiply<Lies::straight, Lies::straight, head_size>(dwrites, memory.given, row, memory.last,
                                                      column);
  if (warp < 4) {
    Sums sums;
    const int top = warp % 2 * 16, left = warp / 2 * 16;
    multiply<Lies::straight, Lies::transposed, head_size>(sums, memory.asked, top, memory.given,
                                                          left);
    sums.each([&](int t, int s, float x, float y) {
      const int last = top ? t : t - 1;  // the last token that this one meets
      const float lower[2] = {s <= last ? x : 0.0f, s + 1 <= last ? y : 0.0f};
      memory.pairs.set(top + t, left + s, lower);
    });
  } else {  // dV: eight tokens of a column each
    constexpr int together = 8;
    const int i = threadIdx.x % head_size, from = threadIdx.x / head_size % 2 * together;
    float dv[together];
#pragma unroll
    for (int s = 0; s < together; ++s) dv[s] = memory.state.end[tile_tokens + from + s][i];
#pragma unroll 4
    for (int t = from; t < tile_tokens; ++t) {
      const float dy = memory.asked.get(tile_tokens + t, i), z = memory.asked.get(t, i);
      float with_dy[together], with_z[together];
#pragma unroll
      for (int s = 0; s < together; s += 4) {
        const float4 rk =
            *reinterpret_cast<float4*>(&memory.products[tile_tokens + t][tile_tokens + from + s]);
        const float4 ak = *reinterpret_cast<float4*>(&memory.products[t][tile_tokens + from + s]);
        with_dy[s] = rk.x, with_dy[s + 1] = rk.y, with_dy[s + 2] = rk.z, with_dy[s + 3] = rk.w;
        with_z[s] = ak.x, with_z[s + 1] = ak.y, with_z[s + 2] = ak.z, with_z[s + 3] = ak.w;
      }
#pragma unroll
      for (int s = 0; s < together; ++s) {
        if (from + s <= t) dv[s] = fmaf(with_dy[s], dy, dv[s]);
        if (from + s < t) dv[s] = fmaf(with_z[s], z, dv[s]);
      }
    }
    const int64_t step = op.heads * head_size;
    Real* const to =
        out.dv + ((sequence * op.time + index * tile_tokens + from) * op.heads + head) * head_size +
        i;
#pragma unroll
    for (int s = 0; s < together; ++s)
      if (from + s < count) store_one(to + s * step, dv[s]);
  }
  __syncthreads();
  write(&memory.through[row][column], padded, dwrites);
  multiply<Lies::straight, Lies::straight, pair_rows>(dreads, memory.pairs, row, memory.writes,
                                                      column);
  multiply<Lies::transposed, Lies::straight, pair_rows>(dwrites, memory.pairs, row, memory.reads,
                                                        column);
  write(&memory.d.reads[row][column], padded, dreads);
  write(&memory.d.writes[row][column], padded, dwrites);
  __syncthreads();
  if (present) {
    float x[8], before[8], decay[8];
    factors(before, decay);
    const auto& d = reads ? memory.d.reads : memory.d.writes;
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = d[mine][part + i] * before[i];
    Eight<Real>::store((reads ? out.da : out.db) + place, x);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] = d[tile_tokens + mine][part + i] * decay[i];
    Eight<Real>::store((reads ? out.dr : out.dk) + place, x);
  }
  if (threadIdx.x < head_size) {
    const int i = threadIdx.x;
    float begin = memory.decay_sums[i];  // what comes from before token t
    float earlier[tile_tokens];
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      earlier[t] = begin;
      begin = fmaf(memory.through[t][i], memory.writes.get(t, i), begin);
      begin =
          fmaf(memory.through[tile_tokens + t][i], memory.writes.get(tile_tokens + t, i), begin);
    }
    float later = 0;
    const int64_t step = op.heads * head_size;
    float* const to =
        out.dw + ((sequence * op.time + index * tile_tokens) * op.heads + head) * head_size + i;
#pragma unroll
    for (int t = tile_tokens - 1; t >= 0; --t) {
      const int second = tile_tokens + t;
      later = fmaf(memory.d.reads[second][i], memory.reads.get(second, i), later);
      later = fmaf(memory.through[t][i] - memory.d.writes[t][i], memory.writes.get(t, i), later);
      later = fmaf(memory.through[second][i] - memory.d.writes[second][i],
                   memory.writes.get(second, i), later);
      if (t < count) to[t * step] = (earlier[t] + later) / memory.w[t][i];
      later = fmaf(memory.d.reads[t][i], memory.reads.get(t, i), later);
    }
  }
}

}  // namespace

template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t tiles = (pass.op.time + tile_tokens - 1) / tile_tokens;
  launch(gradients_kernel<Real>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads * tiles)), dim3(threads),
              sizeof(GradientMemory<planes_for<Real>>)},
         gpu, pass);
}

template void tile_gradients(const ReversePass<float>&, const Gpu&);
template void tile_gradients(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
