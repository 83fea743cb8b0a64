// One block per head: four warps that compute, each thread with 4 rows and 8 columns of the state
// in registers, and a fifth that brings the next tile and takes its decay out. A row lies in 8
// neighbouring lanes; lane c of them has the columns 4c .. 4c+3 and 32+4c .. 32+4c+3, so that a
// 16-byte read of a shared vector meets every bank once.
#include "kernel/delta_rule/cuda_parts.h"
#include "kernel/delta_rule/cuda_tile.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int workers = 128, threads = workers + 32, rows_each = 4, columns_each = 8;

enum Vector { vector_r, vector_k, vector_v, vector_a, vector_b, vectors };

struct Tile {
  float in[vectors][tile_tokens][head_size];  // r~ k~ v a~ b~
  float decay[head_size];                     // of the whole tile
};

__device__ inline float2 fetch_two(const float* from) {
  return __ldg(reinterpret_cast<const float2*>(from));
}
__device__ inline float2 fetch_two(const bf16* from) {
  const uint32_t bits = __ldg(reinterpret_cast<const uint32_t*>(from));
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}

// What one warp does for the others: two channels a lane.
template <class Real>
struct TileSource {
  const Real* of[vectors];
  const float* w;
  int64_t step;  // from token to token

  __device__ TileSource(const DeltaRule<Real>& op, const Real* in_place_of_v, int64_t sequence,
                        int64_t head) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size + threadIdx.x % 32 * 2;
    of[vector_r] = op.r + first, of[vector_k] = op.k + first, of[vector_v] = in_place_of_v + first;
    of[vector_a] = op.a + first, of[vector_b] = op.b + first;
    w = op.w + first;
    step = op.heads * head_size;
  }
  // A few tokens at a time are on its way, so that the numbers fit into registers.
  __device__ void bring(Tile& tile, int64_t token, int count) const {
    constexpr int together = 4;
    const int channel = threadIdx.x % 32 * 2;
    float2 decay{1, 1};
    for (int begin = 0; begin < count; begin += together) {
      float2 in[vectors][together], decays[together];
#pragma unroll
      for (int t = 0; t < together; ++t)
        if (begin + t < count) {
          const int64_t place = (token + begin + t) * step;
          decays[t] = fetch_two(w + place);
#pragma unroll
          for (int i = 0; i < vectors; ++i) in[i][t] = fetch_two(of[i] + place);
        }
#pragma unroll
      for (int t = 0; t < together; ++t)
        if (begin + t < count) {
          const auto put = [&](int which, float2 factor) {
            const float2 x = in[which][t];
            *reinterpret_cast<float2*>(&tile.in[which][begin + t][channel]) = {x.x * factor.x,
                                                                               x.y * factor.y};
          };
          put(vector_a, decay);
          decay.x *= decays[t].x, decay.y *= decays[t].y;
          put(vector_r, decay);
          const float2 inverse{__frcp_rn(decay.x), __frcp_rn(decay.y)};
          put(vector_b, inverse), put(vector_k, inverse);
          put(vector_v, {1, 1});
        }
    }
    *reinterpret_cast<float2*>(&tile.decay[channel]) = decay;
  }
};

struct Place {
  int row, column;  // of the thread's first row; of its first four columns
  __device__ Place() {
    column = threadIdx.x % 8 * 4;
    row = threadIdx.x / 8 * rows_each;
  }
};

__device__ void read_columns(const float* vector, int column, float (&x)[columns_each]) {
  const float4 low = *reinterpret_cast<const float4*>(vector + column);
  const float4 high = *reinterpret_cast<const float4*>(vector + 32 + column);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

using State = float[rows_each][columns_each];

__device__ void load_state(State& S, const float* from, const Place& at) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
    read_columns(from + (at.row + i) * head_size, at.column, S[i]);
}
__device__ void store_state(const State& S, float* to, const Place& at) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i) {
    float* const row = to + (at.row + i) * head_size + at.column;
    *reinterpret_cast<float4*>(row) = make_float4(S[i][0], S[i][1], S[i][2], S[i][3]);
    *reinterpret_cast<float4*>(row + 32) = make_float4(S[i][4], S[i][5], S[i][6], S[i][7]);
  }
}

// This lane's part of the product of the state with a vector of keys.
__device__ void dot(const State& S, const float (&x)[columns_each], float (&sum)[rows_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i) {
    float even = S[i][0] * x[0], odd = S[i][1] * x[1];
#pragma unroll
    for (int j = 2; j < columns_each; j += 2)
      even = fmaf(S[i][j], x[j], even), odd = fmaf(S[i][j + 1], x[j + 1], odd);
    sum[i] = even + odd;
  }
}

// Sums over the 8 lanes of a row: every lane gets those of its rows.
__device__ void sum_everywhere(float (&sum)[rows_each]) {
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
#pragma unroll
    for (int i = 0; i < rows_each; ++i) sum[i] += __shfl_xor_sync(~0u, sum[i], step);
}

// Two rows less at every step: lane c gets the sum of row (c & 4) / 2 + (c & 2) / 2.
__device__ float sum_in_one_place(const float (&sum)[rows_each]) {
  const bool upper = threadIdx.x & 4, odd_row = threadIdx.x & 2;
  float keep0 = upper ? sum[2] : sum[0], keep1 = upper ? sum[3] : sum[1];
  keep0 += __shfl_xor_sync(~0u, upper ? sum[0] : sum[2], 4);
  keep1 += __shfl_xor_sync(~0u, upper ? sum[1] : sum[3], 4);
  float keep = odd_row ? keep1 : keep0;
  keep += __shfl_xor_sync(~0u, odd_row ? keep0 : keep1, 2);
  return keep + __shfl_xor_sync(~0u, keep, 1);
}

__device__ void add_outer(State& S, const float (&rows)[rows_each],
                          const float (&x)[columns_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) S[i][j] = fmaf(rows[i], x[j], S[i][j]);
}

__device__ void scale_columns(State& S, const float (&x)[columns_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) S[i][j] *= x[j];
}

__device__ void neutralize(State& S, const Threshold& threshold) {
  bool tiny = true, small = true;
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) {
      tiny = tiny && threshold.tiny(S[i][j]);
      small = small && threshold.small(S[i][j]);
    }
  const auto all = [&](auto&& map) {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) S[i][j] = map(S[i][j]);
  };
  if (__all_sync(~0u, tiny))
    all([&](float x) { return threshold.of_tiny(x); });
  else if (__all_sync(~0u, small))
    all([&](float x) { return threshold.of_small(x); });
  else
    all([&](float x) { return threshold(x); });
}

__device__ int tile_length(int64_t position, int64_t left, int64_t chunk) {
  const int64_t to_tile = tile_tokens - position % tile_tokens, to_chunk = chunk - position % chunk;
  return int(min(left, min(to_tile, to_chunk)));
}

__device__ void clear_state(State& S) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) S[i][j] = 0;
}

__device__ void read_rows(const float* vector, int row, float (&x)[rows_each]) {
  const float4 four = *reinterpret_cast<const float4*>(vector + row);
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

// resident: so many blocks share a multiprocessor, which bounds the registers of a thread.
template <class Real, bool with_y, int resident>
__global__ __launch_bounds__(threads, resident) void forward_kernel(TokenPass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  const int64_t start = op.positions ? op.positions[sequence] : op.position;
  const int64_t end = pass.from + pass.count;
  __shared__ Tile tiles[2];
  const auto length = [&](int64_t token) {
    return token < end ? tile_length(start + token, end - token, op.chunk) : 0;
  };
  if (threadIdx.x >= workers) {
    const TileSource<Real> source(op, op.v, sequence, head);
    int which = 0;
    for (int64_t token = pass.from; token < end; which ^= 1) {
      const int count = length(token);
      source.bring(tiles[which], token, count);
      __syncthreads();  // it has come; the one before has been read
      token += count;
    }
    return;
  }
  const Place at;
  State S;
  if (pass.initial)
    load_state(S, pass.initial + int64_t(blockIdx.x) * state_entries, at);
  else
    clear_state(S);
  float* states = nullptr;
  if (pass.states) {
    const int64_t all = (op.time + tile_tokens - 1) / tile_tokens;
    states = pass.states + int64_t(blockIdx.x) * (all + 1) * state_entries;
  }
  const int64_t step = op.heads * head_size;
  Real* y = with_y ? op.y + ((sequence * op.time + pass.from) * op.heads + head) * head_size +
                         at.row + (threadIdx.x & 6) / 2
                   : nullptr;
  int which = 0;
  for (int64_t token = pass.from; token < end; which ^= 1) {
    const int count = length(token);
    const int64_t next = token + count;
    float threshold = 0;
    if (op.tau && (start + next) % op.chunk == 0) {
      const int64_t chunks = op.positions ? 1 : (start + op.time) / op.chunk - start / op.chunk;
      const int64_t chunk = op.positions ? 0 : (start + next) / op.chunk - start / op.chunk - 1;
      threshold = __ldg(op.tau + (sequence * chunks + chunk) * op.heads + head);
    }
    if (states) {
      store_state(S, states, at);
      states += state_entries;
    }
    __syncthreads();
    const Tile& tile = tiles[which];
    float a[columns_each], y_sum[rows_each];
    read_columns(tile.in[vector_a][0], at.column, a);
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      float b[columns_each], k[columns_each], r[columns_each], v[rows_each], sa[rows_each];
      read_columns(tile.in[vector_k][t], at.column, k);
      read_rows(tile.in[vector_v][t], at.row, v);
      read_columns(tile.in[vector_b][t], at.column, b);
      dot(S, a, sa);
      read_columns(tile.in[vector_a][t + 1 < count ? t + 1 : t], at.column, a);
      if constexpr (with_y) read_columns(tile.in[vector_r][t], at.column, r);
      // The sums of the token before are added up while this one's are on their way.
      sum_everywhere(sa);
      if constexpr (with_y)
        if (t > 0) {
          const float sum = sum_in_one_place(y_sum);
          if (threadIdx.x % 2 == 0) store_one(y, sum);
          y += step;
        }
      add_outer(S, v, k);
      add_outer(S, sa, b);
      if constexpr (with_y) dot(S, r, y_sum);
    }
    if constexpr (with_y) {
      const float sum = sum_in_one_place(y_sum);
      if (threadIdx.x % 2 == 0) store_one(y, sum);
      y += step;
    }
    float decay[columns_each];
    read_columns(tile.decay, at.column, decay);
    scale_columns(S, decay);
    if (threshold > 0) neutralize(S, Threshold(threshold));
    token = next;
  }
  if (states) store_state(S, states, at);
  if (pass.final_state) store_state(S, pass.final_state + int64_t(blockIdx.x) * state_entries, at);
}

// Through a neutralization: S is what it left. dS becomes the gradient of what it was given.
// Returns this thread's part of dtau = sum dS (tanh u - u sech^2 u).
__device__ float neutralize_back(State& dS, const float* after, const Place& at, float tau) {
  State S;
  load_state(S, after, at);
  const float inverse = __frcp_rn(tau);
  float dtau = 0;
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) {
      const float x = fminf(fmaxf(S[i][j] * inverse, -1.0f), 1.0f);  // tanh u
      const float sech2 = fmaf(-x, x, 1.0f);
      // tanh u - u sech^2 u = u^3 (2/3 - 4/15 u^2 ...): by its series in x where terms cancel
      float rest;
      const float q = x * x;
      if (q < 0.04f) {
        // atanh x = x (1 + q/3 + q^2/5 + ...), so x - (1 - q) atanh x = x q (2/3 + 2/15 q + ...)
        float p = fmaf(q, 2.0f / 143, 2.0f / 99);
        p = fmaf(q, p, 2.0f / 63);
        p = fmaf(q, p, 2.0f / 35);
        p = fmaf(q, p, 2.0f / 15);
        p = fmaf(q, p, 2.0f / 3);
        rest = x * q * p;
      } else {
        const float u = sech2 > 0 ? 0.5f * logf((1 + x) / (1 - x)) : 0.0f;
        rest = x - u * sech2;
      }
      dtau = fmaf(dS[i][j], rest, dtau);
      dS[i][j] *= sech2;
    }
  return dtau;
}

template <class Real, int resident>
__global__ __launch_bounds__(threads, resident) void reverse_kernel(ReversePass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  const int64_t all = (op.time + tile_tokens - 1) / tile_tokens, chunks = op.time / tile_tokens;
  __shared__ Tile tiles[2];
  const auto length = [&](int64_t index) {
    return int(min(op.time - index * tile_tokens, int64_t(tile_tokens)));
  };
  if (threadIdx.x >= workers) {
    const TileSource<Real> source(op, pass.gradient.dy, sequence, head);  // dy in v's place
    int which = 0;
    for (int64_t index = all - 1; index >= 0; --index, which ^= 1) {
      source.bring(tiles[which], index * tile_tokens, length(index));
      __syncthreads();
    }
    return;
  }
  const Place at;
  const float* const states = pass.states + int64_t(blockIdx.x) * (all + 1) * state_entries;
  float* const dstates = pass.dstates + int64_t(blockIdx.x) * all * state_entries;
  float* const dtaus = pass.dtau_parts + int64_t(blockIdx.x) * chunks * (workers / 32);
  State D;
  if (pass.gradient.dfinal)
    load_state(D, pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries, at);
  else
    clear_state(D);
  int which = 0;
  for (int64_t index = all - 1; index >= 0; --index, which ^= 1) {
    const int count = length(index);
    if (op.tau && index < chunks) {
      const float tau = __ldg(op.tau + (sequence * chunks + index) * op.heads + head);
      float dtau = neutralize_back(D, states + (index + 1) * state_entries, at, tau);
      for (int step = 16; step > 0; step /= 2) dtau += __shfl_xor_sync(~0u, dtau, step);
      if (threadIdx.x % 32 == 0) dtaus[index * (workers / 32) + threadIdx.x / 32] = dtau;
    }
    store_state(D, dstates + index * state_entries, at);
    __syncthreads();
    const Tile& tile = tiles[which];
    float x[columns_each];
    read_columns(tile.decay, at.column, x);
    scale_columns(D, x);
    float r[columns_each], dy[rows_each];
    read_columns(tile.in[vector_r][count - 1], at.column, r);
    read_rows(tile.in[vector_v][count - 1], at.row, dy);
#pragma unroll 2
    for (int t = count - 1; t >= 0; --t) {
      float a[columns_each], b[columns_each], dsa[rows_each];
      read_columns(tile.in[vector_b][t], at.column, b);
      read_columns(tile.in[vector_a][t], at.column, a);
      add_outer(D, dy, r);
      dot(D, b, dsa);
      const int next = t > 0 ? t - 1 : 0;
      read_columns(tile.in[vector_r][next], at.column, r);
      read_rows(tile.in[vector_v][next], at.row, dy);
      sum_everywhere(dsa);
      add_outer(D, dsa, a);
    }
  }
  if (pass.gradient.dinitial)
    store_state(D, pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries, at);
}

}  // namespace

template <class Real>
void token_pass(const TokenPass<Real>& pass, const Gpu& gpu) {
  const int64_t heads = pass.op.batch * pass.op.heads;
  const bool crowded = heads > 3 * gpu.facts().multiprocessors;
  const auto kernel = pass.op.y
                          ? crowded ? forward_kernel<Real, true, 4> : forward_kernel<Real, true, 3>
                      : crowded ? forward_kernel<Real, false, 4>
                                : forward_kernel<Real, false, 3>;
  launch(kernel, Grid{dim3(unsigned(heads)), dim3(threads)}, gpu, pass);
}

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t heads = pass.op.batch * pass.op.heads;
  const bool crowded = heads > 3 * gpu.facts().multiprocessors;
  launch(crowded ? reverse_kernel<Real, 4> : reverse_kernel<Real, 3>,
         Grid{dim3(unsigned(heads)), dim3(threads)}, gpu, pass);
}

template void token_pass(const TokenPass<float>&, const Gpu&);
template void token_pass(const TokenPass<bf16>&, const Gpu&);
template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
