// Forward token by token, one block per head: four warps compute, each thread with 4 rows and 8
// columns of the state in registers, and a fifth loads the next tile and takes its decay out. A row
// is in 8 neighbouring lanes; lane c of them has the columns 4c .. 4c+3 and 32+4c .. 32+4c+3, so
// that 16-byte reads of a shared vector have no bank conflicts.
//
// Tokens are processed in pairs, so that the latency of a sum over lanes is paid once for two of
// them. With T the state before the pair,
//
//     T a~_0 is the first one's, and  (T + (T a~_0) b~_0' + v_0 k~_0') a~_1
//                                       = T a~_1 + (b~_0 a~_1) T a~_0 + (k~_0 a~_1) v_0
//
// the second one's; the fifth warp computes the two products of the vectors.
#include <cuda_pipeline.h>

#include "kernel/cuda/warp_reduce.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/cuda/passes.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int compute_threads = 128, threads = compute_threads + 32, rows_each = 4,
              columns_each = 8;

enum Vector { vector_r, vector_k, vector_v, vector_a, vector_b, vectors };

struct Tile {
  float in[vectors][tile_tokens][head_size];  // r~ k~ v a~ b~
  float decay[head_size];                     // of the whole tile
  float2 pair[tile_tokens / 2];               // the products of vectors that a pair needs
};
// Where tiles end: at multiples of 16 positions, at chunks, and with the input. It divides only in
// the constructor.
struct TileWalk {
  int left, to_tile, to_chunk, chunk;
  __device__ TileWalk(int64_t position, int tokens, int chunk_tokens)
      : left(tokens),
        to_tile(tile_tokens - int(position % tile_tokens)),
        to_chunk(chunk_tokens - int(position % chunk_tokens)),
        chunk(chunk_tokens) {}
  __device__ int count() const { return min(left, min(to_tile, to_chunk)); }
  __device__ bool ends_chunk() const { return count() == to_chunk; }
  __device__ void advance() {
    const int done = count();
    left -= done, to_tile -= done, to_chunk -= done;
    if (to_tile == 0) to_tile = tile_tokens;
    if (to_chunk == 0) to_chunk = chunk;
  }
};

__device__ inline float2 two(const float* from) { return *reinterpret_cast<const float2*>(from); }
__device__ inline float2 two(const bf16* from) {
  const uint32_t bits = *reinterpret_cast<const uint32_t*>(from);
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}

// A tile as it is in global memory, while it is copied.
template <class Real>
struct RawTile {
  Real in[vectors][tile_tokens][head_size];
  float w[tile_tokens][head_size];
};

// The producer warp: while the others compute a tile, it makes the next one out of the raw tile
// that has been copied, and starts the copy of the one after.
template <class Real>
struct TileLoader {
  RawTile<Real>& raw;
  const Real* of[vectors];
  const float* w;
  int64_t step;  // from token to token

  __device__ TileLoader(RawTile<Real>& to, const DeltaRule<Real>& op, int64_t sequence,
                        int64_t head)
      : raw(to) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    of[vector_r] = op.r + first, of[vector_k] = op.k + first, of[vector_v] = op.v + first;
    of[vector_a] = op.a + first, of[vector_b] = op.b + first;
    w = op.w + first;
    step = op.heads * head_size;
  }
  template <class Element>
  __device__ void copy(Element (&to)[tile_tokens][head_size], const Element* from,
                       int count) const {
    constexpr int piece = 16 / sizeof(Element), pieces = head_size / piece;
    constexpr int tokens_at_once = 32 / pieces;
    const int lane = threadIdx.x % 32, part = lane % pieces * piece;
    const Element* mine = from + lane / pieces * step + part;
    Element* place = &to[lane / pieces][part];
#pragma unroll
    for (int t = 0; t < tile_tokens; t += tokens_at_once) {
      if (t + lane / pieces < count) __pipeline_memcpy_async(place, mine, 16);
      mine += tokens_at_once * step, place += tokens_at_once * head_size;
    }
  }
  __device__ void copy(int64_t token, int count) const {
#pragma unroll
    for (int i = 0; i < vectors; ++i) copy(raw.in[i], of[i] + token * step, count);
    copy(raw.w, w + token * step, count);
    __pipeline_commit();
  }
  // Takes the decay out of the raw tile. In a tile that is not full, the missing tokens are zeros.
  __device__ void make(Tile& tile, int count) const {
    __pipeline_wait_prior(0);
    __syncwarp();
    const int channel = threadIdx.x % 32 * 2;
    if (count < tile_tokens) {
      for (int t = count; t < tile_tokens; ++t) {
#pragma unroll
        for (int i = 0; i < vectors; ++i)
          raw.in[i][t][channel] = raw.in[i][t][channel + 1] = Real();
        raw.w[t][channel] = raw.w[t][channel + 1] = 1;
      }
    }
    float2 decay{1, 1}, first_b{}, first_k{};
    float products[tile_tokens];
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      const auto store = [&](int which, float2 factor) {
        float2 x = two(&raw.in[which][t][channel]);
        x.x *= factor.x, x.y *= factor.y;
        *reinterpret_cast<float2*>(&tile.in[which][t][channel]) = x;
        return x;
      };
      const float2 w_t = two(&raw.w[t][channel]);
      const float2 a = store(vector_a, decay);
      decay.x *= w_t.x, decay.y *= w_t.y;
      store(vector_r, decay);
      const float2 inverse{reciprocal(decay.x), reciprocal(decay.y)};
      const float2 b = store(vector_b, inverse), k = store(vector_k, inverse);
      *reinterpret_cast<float2*>(&tile.in[vector_v][t][channel]) =
          two(&raw.in[vector_v][t][channel]);
      if (t % 2 == 0) {
        first_b = b, first_k = k;
      } else {
        products[t - 1] = fmaf(first_b.y, a.y, first_b.x * a.x);
        products[t] = fmaf(first_k.y, a.y, first_k.x * a.x);
      }
    }
    *reinterpret_cast<float2*>(&tile.decay[channel]) = decay;
    float sum = reduce_scatter<tile_tokens, 16>(products);
    sum += __shfl_xor_sync(~0u, sum, 1);
    if (threadIdx.x % 2 == 0) reinterpret_cast<float*>(tile.pair)[threadIdx.x % 32 / 2] = sum;
    __syncwarp();
  }
};

template <class Real>
struct TokenMemory {
  Tile tiles[2];
  RawTile<Real> raw;
};

struct LanePosition {
  int row, column;  // of the thread's first row; of its first four columns
  __device__ LanePosition() {
    column = threadIdx.x % 8 * 4;
    row = threadIdx.x / 8 * rows_each;
  }
};

__device__ void read_columns(const float* first, float (&x)[columns_each]) {
  const float4 low = *reinterpret_cast<const float4*>(first);
  const float4 high = *reinterpret_cast<const float4*>(first + 32);
  x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
  x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
}

using State = float[rows_each][columns_each];

__device__ void load_state(State& S, const float* from, const LanePosition& at) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
    read_columns(from + (at.row + i) * head_size + at.column, S[i]);
}
__device__ void store_state(const State& S, float* to, const LanePosition& at) {
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

// All-reduce over the 8 lanes of a row.
__device__ void all_reduce(float (&x)[rows_each], float (&y)[rows_each]) {
#pragma unroll
  for (int step = 1; step < 8; step *= 2)
#pragma unroll
    for (int i = 0; i < rows_each; ++i) {
      x[i] += __shfl_xor_sync(~0u, x[i], step);
      y[i] += __shfl_xor_sync(~0u, y[i], step);
    }
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

__device__ void neutralize(State& S, const Tanh& tanh) {
  tanh.apply([&](auto&& map) {
#pragma unroll
    for (int i = 0; i < rows_each; ++i)
#pragma unroll
      for (int j = 0; j < columns_each; ++j) map(S[i][j]);
  });
}

__device__ void clear_state(State& S) {
#pragma unroll
  for (int i = 0; i < rows_each; ++i)
#pragma unroll
    for (int j = 0; j < columns_each; ++j) S[i][j] = 0;
}

__device__ void read_rows(const float* first, float (&x)[rows_each]) {
  const float4 four = *reinterpret_cast<const float4*>(first);
  x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

// resident: blocks on a multiprocessor, which bounds the registers of a thread.
template <class Real, int resident>
__global__ __launch_bounds__(threads, resident) void token_forward_kernel(TokenForward<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  const int64_t start = op.position;
  extern __shared__ float4 dynamic_shared[];
  TokenMemory<Real>& memory = *reinterpret_cast<TokenMemory<Real>*>(dynamic_shared);
  TileWalk walk(start + pass.from, int(pass.count), int(op.chunk));
  int which = 0;
  if (threadIdx.x >= compute_threads) {
    const TileLoader<Real> loader(memory.raw, op, sequence, head);
    int64_t token = pass.from;
    loader.copy(token, walk.count());
    for (; walk.left > 0; which ^= 1) {
      const int count = walk.count();
      loader.make(memory.tiles[which], count);
      token += count;
      walk.advance();
      loader.copy(token, walk.count());
      __syncthreads();  // the tile is ready; the one before has been read
    }
    return;
  }
  const LanePosition at;
  State S;
  if (pass.initial)
    load_state(S, pass.initial + int64_t(blockIdx.x) * state_entries, at);
  else
    clear_state(S);
  // Of a pair, lane c of a row's 8 stores token c / 4 and row c % 4; a pair late, while the next
  // one's sums are pending.
  const int64_t step = op.heads * head_size;
  const int y_token = threadIdx.x % 8 / 4;
  Real* y = op.y + ((sequence * op.time + pass.from + y_token) * op.heads + head) * head_size +
            at.row + threadIdx.x % 4;
  float y_sums[2 * rows_each] = {};
  bool y_pending = false;  // of this lane
  const auto store_y = [&] {
    const float sum = reduce_scatter<2 * rows_each, 4>(y_sums);
    if (y_pending) store_one(y, sum);
  };
  int y_step = 0;  // tokens of the pending pair
  const int64_t chunks = (start + op.time) / op.chunk - start / op.chunk;
  const int64_t before = (start + pass.from) / op.chunk - start / op.chunk;
  const float* tau = op.tau ? op.tau + (sequence * chunks + before) * op.heads + head : nullptr;
  for (; walk.left > 0; which ^= 1, walk.advance()) {
    const int count = walk.count();
    float threshold = 0;
    if (tau && walk.ends_chunk()) {
      threshold = __ldg(tau);
      tau += op.heads;
    }
    __syncthreads();
    const Tile& tile = memory.tiles[which];
    const float* columns = &tile.in[0][0][at.column];  // of the pair
    const float* rows = &tile.in[vector_v][0][at.row];
    constexpr int vector = tile_tokens * head_size;
    // Where a multiprocessor has few warps, the next pair's vectors are prefetched.
    constexpr bool prefetch = resident < 4;
    float a0[columns_each], a1[columns_each];
    const auto read_a = [&] {
      read_columns(columns + vector_a * vector, a0);
      read_columns(columns + vector_a * vector + head_size, a1);
    };
    if constexpr (prefetch) read_a();
#pragma unroll 1
    for (int t = 0; t < count; t += 2) {
      const float2 products = tile.pair[t / 2];
      float v[rows_each], sa0[rows_each], sa1[rows_each], x[columns_each], z[columns_each];
      if constexpr (!prefetch) read_a();
      dot(S, a0, sa0);
      dot(S, a1, sa1);
      read_rows(rows, v);
      read_columns(columns + vector_k * vector, x);
      read_columns(columns + vector_b * vector, z);
      all_reduce(sa0, sa1);
      store_y();
      y += y_step * step;
      y_step = 2, y_pending = t + y_token < count;
      add_outer(S, v, x);
#pragma unroll
      for (int i = 0; i < rows_each; ++i)
        sa1[i] = fmaf(products.x, sa0[i], fmaf(products.y, v[i], sa1[i]));
      add_outer(S, sa0, z);
      read_columns(columns + vector_r * vector, x);
      dot(S, x, reinterpret_cast<float(&)[rows_each]>(y_sums[0]));
      columns += head_size, rows += head_size;
      read_rows(rows, v);
      read_columns(columns + vector_k * vector, x);
      add_outer(S, v, x);
      read_columns(columns + vector_b * vector, x);
      add_outer(S, sa1, x);
      read_columns(columns + vector_r * vector, x);
      dot(S, x, reinterpret_cast<float(&)[rows_each]>(y_sums[rows_each]));
      columns += head_size, rows += head_size;
      if constexpr (prefetch) read_a();  // after the last pair: not used
    }
    if (count % 2) {  // the pending pair had one token; the next one starts behind it
      store_y();
      y += step;
      y_step = 0, y_pending = false;
    }
    float decay[columns_each];
    read_columns(tile.decay + at.column, decay);
    scale_columns(S, decay);
    if (threshold > 0) neutralize(S, Tanh(threshold));
  }
  store_y();
  if (pass.final_state) store_state(S, pass.final_state + int64_t(blockIdx.x) * state_entries, at);
}

}  // namespace

template <class Real>
void token_forward(const TokenForward<Real>& pass, const Gpu& gpu) {
  const int64_t heads = pass.op.batch * pass.op.heads;
  const bool crowded = heads > 3 * gpu.properties().multiprocessors;
  launch(crowded ? token_forward_kernel<Real, 4> : token_forward_kernel<Real, 3>,
         Grid{dim3(unsigned(heads)), dim3(threads), sizeof(TokenMemory<Real>)}, gpu, pass);
}

template void token_forward(const TokenForward<float>&, const Gpu&);
template void token_forward(const TokenForward<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
