// One block per head: 128 threads, each with 4 rows and 8 columns of the state in registers. A row
// lies in 8 neighbouring lanes; lane c of them has the columns 4c .. 4c+3 and 32+4c .. 32+4c+3, so
// that a 16-byte read of a shared vector meets every bank once.
#include "kernel/delta_rule/cuda_parts.h"
#include "kernel/delta_rule/cuda_tile.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 128, rows_each = 4, columns_each = 8;

enum Vector { vector_r, vector_k, vector_v, vector_a, vector_b, vectors };

struct Tile {
  float in[vectors][tile_tokens][head_size];  // r~ k~ v a~ b~
  float w[tile_tokens][head_size];
  float decay[head_size];  // of the whole tile
  float y[tile_tokens][head_size];
};

// The next tile's numbers, on their way from memory: thread t has token t / 8, channels 8 (t % 8).
template <class Real>
struct Incoming {
  Eight<Real> in[vectors];
  Eight<float> w;
};

template <class Real>
struct TokenSource {
  const Real* of[vectors];
  const float* w;
  int64_t step;  // from token to token

  __device__ TokenSource(const DeltaRule<Real>& op, const Real* in_place_of_r, int64_t sequence,
                         int64_t head) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    of[vector_r] = op.r + first, of[vector_k] = op.k + first, of[vector_v] = in_place_of_r + first;
    of[vector_a] = op.a + first, of[vector_b] = op.b + first;
    w = op.w + first;
    step = op.heads * head_size;
  }
  __device__ void fetch(Incoming<Real>& to, int64_t token, int count) const {
    const int mine = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
    if (mine >= count) return;
    const int64_t place = (token + mine) * step + part;
#pragma unroll
    for (int i = 0; i < vectors; ++i) to.in[i].load(of[i] + place);
    to.w.load(w + place);
  }
};

template <class Real>
__device__ void place(Tile& tile, const Incoming<Real>& from, int count) {
  const int mine = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
  if (mine >= count) return;
  float x[8];
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    from.in[i].unpack(x);
    store_floats(&tile.in[i][mine][part], x);
  }
  from.w.unpack(x);
  store_floats(&tile.w[mine][part], x);
}

// Takes the decays into a, r (the first half of the threads) and out of b, k (the other half).
__device__ void take_decay_out(Tile& tile, int count) {
  const int channel = threadIdx.x % head_size;
  const bool reads = threadIdx.x < head_size;
  float decay = 1;
#pragma unroll 4
  for (int t = 0; t < count; ++t) {
    const float w = tile.w[t][channel];
    if (reads) {
      tile.in[vector_a][t][channel] *= decay;
      decay *= w;
      tile.in[vector_r][t][channel] *= decay;
    } else {
      decay *= w;
      const float inverse = __frcp_rn(decay);
      tile.in[vector_b][t][channel] *= inverse;
      tile.in[vector_k][t][channel] *= inverse;
    }
  }
  if (reads) tile.decay[channel] = decay;
}

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

// The product of the state with a vector of keys: every lane gets the sums of its rows.
__device__ void dot(const State& S, const float (&x)[columns_each], float (&sum)[rows_each]) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i) {
    float even = S[i][0] * x[0], odd = S[i][1] * x[1];
#pragma unroll
    for (int j = 2; j < columns_each; j += 2)
      even = fmaf(S[i][j], x[j], even), odd = fmaf(S[i][j + 1], x[j + 1], odd);
    sum[i] = even + odd;
  }
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
#pragma unroll
    for (int i = 0; i < rows_each; ++i) sum[i] += __shfl_xor_sync(~0u, sum[i], step);
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

// The read-out's sums, each row's in one lane: two rows less at every step.
__device__ void read_out(const State& S, const float (&x)[columns_each], float* y, int row) {
  float sum[rows_each];
#pragma unroll
  for (int i = 0; i < rows_each; ++i) {
    float even = S[i][0] * x[0], odd = S[i][1] * x[1];
#pragma unroll
    for (int j = 2; j < columns_each; j += 2)
      even = fmaf(S[i][j], x[j], even), odd = fmaf(S[i][j + 1], x[j + 1], odd);
    sum[i] = even + odd;
  }
  const bool upper = threadIdx.x & 4, odd_row = threadIdx.x & 2;
  float keep0 = upper ? sum[2] : sum[0], keep1 = upper ? sum[3] : sum[1];
  keep0 += __shfl_xor_sync(~0u, upper ? sum[0] : sum[2], 4);
  keep1 += __shfl_xor_sync(~0u, upper ? sum[1] : sum[3], 4);
  float keep = odd_row ? keep1 : keep0;
  keep += __shfl_xor_sync(~0u, odd_row ? keep0 : keep1, 2);
  keep += __shfl_xor_sync(~0u, keep, 1);
  if (threadIdx.x % 2 == 0) y[row + 2 * upper + odd_row] = keep;
}

__device__ void neutralize(State& S, const Threshold& threshold) {
  bool small = true;
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) small = small && threshold.small(S[i][j]);
  if (__all_sync(~0u, small)) {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) S[i][j] = threshold.of_small(S[i][j]);
  } else {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) S[i][j] = threshold(S[i][j]);
  }
}

__device__ int tile_length(int64_t position, int64_t left, int64_t chunk) {
  const int64_t to_tile = tile_tokens - position % tile_tokens, to_chunk = chunk - position % chunk;
  return int(min(left, min(to_tile, to_chunk)));
}

template <class Real>
__device__ void write_tile(Real* y, int64_t step, const Tile& tile, int count) {
  const int mine = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
  if (mine >= count) return;
  float x[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] = tile.y[mine][part + i];
  Eight<Real>::store(y + mine * step + part, x);
}

template <class Real, bool with_y>
__global__ __launch_bounds__(threads) void forward_kernel(TokenPass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  const int64_t start = op.positions ? op.positions[sequence] : op.position;
  const int64_t chunks = (start + op.time) / op.chunk - start / op.chunk;
  const int64_t state_chunks = op.positions ? 1 : chunks;
  __shared__ Tile tile;
  const Place at;
  const TokenSource<Real> source(op, op.v, sequence, head);
  State S;
  if (pass.initial) {
    load_state(S, pass.initial + int64_t(blockIdx.x) * state_entries, at);
  } else {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) S[i][j] = 0;
  }
  float* states = nullptr;
  if (pass.states) {
    const int64_t tiles = (op.time + tile_tokens - 1) / tile_tokens;
    states = pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries;
  }
  int64_t token = pass.from;
  const int64_t end = pass.from + pass.count;
  int count = tile_length(start + token, end - token, op.chunk);
  Incoming<Real> incoming;
  source.fetch(incoming, token, count);
  while (token < end) {
    __syncthreads();  // the tile before has been read
    place(tile, incoming, count);
    __syncthreads();
    const int64_t next = token + count;
    const int next_count = next < end ? tile_length(start + next, end - next, op.chunk) : 0;
    source.fetch(incoming, next, next_count);
    take_decay_out(tile, count);
    __syncthreads();
    if (states) {
      store_state(S, states, at);
      states += state_entries;
    }
#pragma unroll 2
    for (int t = 0; t < count; ++t) {
      float x[columns_each], sa[rows_each];
      read_columns(tile.in[vector_a][t], at.column, x);
      dot(S, x, sa);
      const float4 four = *reinterpret_cast<const float4*>(&tile.in[vector_v][t][at.row]);
      const float v[rows_each] = {four.x, four.y, four.z, four.w};
      read_columns(tile.in[vector_k][t], at.column, x);
      add_outer(S, v, x);
      read_columns(tile.in[vector_b][t], at.column, x);
      add_outer(S, sa, x);
      if constexpr (with_y) {
        read_columns(tile.in[vector_r][t], at.column, x);
        read_out(S, x, tile.y[t], at.row);
      }
    }
    float decay[columns_each];
    read_columns(tile.decay, at.column, decay);
    scale_columns(S, decay);
    if (op.tau && (start + next) % op.chunk == 0) {
      const int64_t which = op.positions ? 0 : (start + next) / op.chunk - start / op.chunk - 1;
      neutralize(S, Threshold(op.tau[(sequence * state_chunks + which) * op.heads + head]));
    }
    if constexpr (with_y) {
      __syncthreads();
      write_tile(op.y + ((sequence * op.time + token) * op.heads + head) * head_size, source.step,
                 tile, count);
    }
    token = next;
    count = next_count;
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

template <class Real>
__global__ __launch_bounds__(threads) void reverse_kernel(ReversePass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  const int64_t tiles = (op.time + tile_tokens - 1) / tile_tokens;
  const int64_t chunks = op.time / tile_tokens;
  __shared__ Tile tile;
  __shared__ float sums[threads / 32];
  const Place at;
  const TokenSource<Real> source(op, pass.gradient.dy, sequence, head);  // dy in v's place
  const float* const states = pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries;
  float* const dstates = pass.dstates + int64_t(blockIdx.x) * tiles * state_entries;
  State D;
  if (pass.gradient.dfinal) {
    load_state(D, pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries, at);
  } else {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) D[i][j] = 0;
  }
  const auto length = [&](int64_t index) {
    return int(min(op.time - index * tile_tokens, int64_t(tile_tokens)));
  };
  Incoming<Real> incoming;
  source.fetch(incoming, (tiles - 1) * tile_tokens, length(tiles - 1));
  for (int64_t index = tiles - 1; index >= 0; --index) {
    const int count = length(index);
    __syncthreads();
    place(tile, incoming, count);
    __syncthreads();
    if (index > 0) source.fetch(incoming, (index - 1) * tile_tokens, tile_tokens);
    take_decay_out(tile, count);
    if (op.tau && index < chunks) {
      const int64_t place_of_tau = (sequence * chunks + index) * op.heads + head;
      float dtau =
          neutralize_back(D, states + (index + 1) * state_entries, at, op.tau[place_of_tau]);
      for (int step = 16; step > 0; step /= 2) dtau += __shfl_xor_sync(~0u, dtau, step);
      if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = dtau;
      __syncthreads();
      if (threadIdx.x == 0 && pass.gradient.dtau)
        pass.gradient.dtau[place_of_tau] = sums[0] + sums[1] + sums[2] + sums[3];
    } else {
      __syncthreads();
    }
    store_state(D, dstates + index * state_entries, at);
    float x[columns_each];
    read_columns(tile.decay, at.column, x);
    scale_columns(D, x);
#pragma unroll 2
    for (int t = count - 1; t >= 0; --t) {
      float dsa[rows_each];
      const float4 four = *reinterpret_cast<const float4*>(&tile.in[vector_v][t][at.row]);
      const float dy[rows_each] = {four.x, four.y, four.z, four.w};
      read_columns(tile.in[vector_r][t], at.column, x);
      add_outer(D, dy, x);
      read_columns(tile.in[vector_b][t], at.column, x);
      dot(D, x, dsa);
      read_columns(tile.in[vector_a][t], at.column, x);
      add_outer(D, dsa, x);
    }
  }
  if (pass.gradient.dinitial)
    store_state(D, pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries, at);
}

}  // namespace

template <class Real>
void token_pass(const TokenPass<Real>& pass, const Gpu& gpu) {
  const Grid grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(threads)};
  launch(pass.op.y ? forward_kernel<Real, true> : forward_kernel<Real, false>, grid, gpu, pass);
}

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  const Grid grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(threads)};
  launch(reverse_kernel<Real>, grid, gpu, pass);
}

template void token_pass(const TokenPass<float>&, const Gpu&);
template void token_pass(const TokenPass<bf16>&, const Gpu&);
template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
