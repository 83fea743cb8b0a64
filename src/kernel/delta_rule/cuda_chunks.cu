// Few heads: all tiles at once, then a short sequential pass.
//
// With the rows of A~ R~ B~ K~ V the a~ r~ b~ k~ v of a tile's 16 tokens (cuda_tile.cuh), its first
// state S0, SA the rows T_t-1 a~_t, and AB AK RB RK the lower parts of A~ B~' and so on (AB and AK
// without the diagonal):
//
//     SA = (I - AB)^-1 (A~ S0' + AK V)   = A' S0' + U        A' = (I - AB)^-1 A~, U = (I - AB)^-1
//     AK V Y  = R~ S0' + RB SA + RK V         = R' S0' + Y0       R' = R~ + RB A',     Y0 = RB U +
//     RK V S  = (S0 + SA' B~ + V' K~) diag(W) = S0 diag(W) + SA' B^ + V' K^      B^ = B~ diag(W),
//     ...
//
// A' R' B^ K^ U Y0 do not depend on S0. Rows of S0 do not meet, so the sequential pass is cut into
// warps of two rows each.
#include <cuda_pipeline.h>

#include "kernel/delta_rule/cuda_parts.h"
#include "kernel/delta_rule/cuda_tile.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int tile_entries = tile_tokens * head_size;

// What is known of a tile before its first state is.
struct TileTerms {
  float a[tile_tokens][head_size], r[tile_tokens][head_size];
  float b[tile_tokens][head_size], k[tile_tokens][head_size];
  float decay[head_size];
  float u[tile_tokens][head_size], y[tile_tokens][head_size];
};
constexpr int carried_floats = 4 * tile_entries + head_size;  // a r b k decay: every row needs them

constexpr int term_threads = 128;
constexpr int padded = head_size + 4;  // 16-byte reads of neighbouring rows in different banks
constexpr int square = 2 * tile_tokens + 4;

struct TermsMemory {
  float reads[2 * tile_tokens][padded];   // A~, then R~
  float writes[2 * tile_tokens][padded];  // B~, then K~
  float v[tile_tokens][padded], w[tile_tokens][padded];
  float decay[head_size];
  float products[2 * tile_tokens][square];  // reads writes': AB AK over RB RK
};

template <class Real>
__device__ void place_row(float (&to)[8], const Real* from) {
  Eight<Real> eight;
  eight.load(from);
  eight.unpack(to);
}

template <class Real>
__global__ __launch_bounds__(term_threads) void terms_kernel(DeltaRule<Real> op, int64_t tiles,
                                                             TileTerms* all) {
  extern __shared__ float4 raw_memory[];
  TermsMemory& memory = *reinterpret_cast<TermsMemory*>(raw_memory);
  const int64_t index = blockIdx.x % tiles, of_head = blockIdx.x / tiles;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  {
    const int mine = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
    const int64_t at =
        ((sequence * op.time + index * tile_tokens + mine) * op.heads + head) * head_size + part;
    float x[8];
    place_row(x, op.a + at), store_floats(&memory.reads[mine][part], x);
    place_row(x, op.r + at), store_floats(&memory.reads[tile_tokens + mine][part], x);
    place_row(x, op.b + at), store_floats(&memory.writes[mine][part], x);
    place_row(x, op.k + at), store_floats(&memory.writes[tile_tokens + mine][part], x);
    place_row(x, op.v + at), store_floats(&memory.v[mine][part], x);
    place_row(x, op.w + at), store_floats(&memory.w[mine][part], x);
  }
  __syncthreads();
  const int channel = threadIdx.x % head_size;
  const bool lower_half = threadIdx.x < head_size;
  {
    float decay = 1;
#pragma unroll 4
    for (int t = 0; t < tile_tokens; ++t) {
      const float w = memory.w[t][channel];
      if (lower_half) {
        memory.reads[t][channel] *= decay;
        decay *= w;
        memory.reads[tile_tokens + t][channel] *= decay;
      } else {
        decay *= w;
        const float inverse = reciprocal(decay);
        memory.writes[t][channel] *= inverse;
        memory.writes[tile_tokens + t][channel] *= inverse;
      }
    }
    if (lower_half) memory.decay[channel] = decay;
  }
  __syncthreads();
  TileTerms& out = all[blockIdx.x];
  {  // 2 rows and 4 columns of the products each
    const int row = threadIdx.x / 8 * 2, column = threadIdx.x % 8;
    float sum[2][4] = {};
#pragma unroll 4
    for (int j = 0; j < head_size; j += 4) {
      float4 x[2], y[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) x[i] = *reinterpret_cast<float4*>(&memory.reads[row + i][j]);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        y[i] = *reinterpret_cast<float4*>(&memory.writes[column + 8 * i][j]);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          sum[i][n] = fmaf(x[i].x, y[n].x, sum[i][n]), sum[i][n] = fmaf(x[i].y, y[n].y, sum[i][n]);
          sum[i][n] = fmaf(x[i].z, y[n].z, sum[i][n]), sum[i][n] = fmaf(x[i].w, y[n].w, sum[i][n]);
        }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int n = 0; n < 4; ++n) memory.products[row + i][column + 8 * n] = sum[i][n];
  }
  {  // B^ and K^
    const float decay = memory.decay[channel];
    const int half = lower_half ? 0 : tile_tokens;
    float(*const to)[head_size] = lower_half ? out.b : out.k;
#pragma unroll 4
    for (int t = 0; t < tile_tokens; ++t) to[t][channel] = memory.writes[half + t][channel] * decay;
    if (lower_half) out.decay[channel] = decay;
  }
  __syncthreads();
  // One column each: the first 64 threads of A' and R', the others of U and Y0.
  float x[tile_tokens], v[tile_tokens];
  const auto read_row = [&](int row, int first, float(&to)[tile_tokens]) {
#pragma unroll
    for (int i = 0; i < tile_tokens; i += 4) {
      const float4 four = *reinterpret_cast<float4*>(&memory.products[row][first + i]);
      to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
    }
  };
  if (lower_half) {
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) x[t] = memory.reads[t][channel];
  } else {
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) v[t] = memory.v[t][channel];
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      float ak[tile_tokens];
      read_row(t, tile_tokens, ak);
      x[t] = 0;
#pragma unroll
      for (int s = 0; s < t; ++s) x[t] = fmaf(ak[s], v[s], x[t]);
    }
  }
#pragma unroll
  for (int t = 1; t < tile_tokens; ++t) {
    float ab[tile_tokens];
    read_row(t, 0, ab);
#pragma unroll
    for (int s = 0; s < t; ++s) x[t] = fmaf(ab[s], x[s], x[t]);
  }
#pragma unroll
  for (int t = 0; t < tile_tokens; ++t) (lower_half ? out.a : out.u)[t][channel] = x[t];
#pragma unroll
  for (int t = 0; t < tile_tokens; ++t) {
    float rb[tile_tokens], sum = lower_half ? memory.reads[tile_tokens + t][channel] : 0.0f;
    read_row(tile_tokens + t, 0, rb);
#pragma unroll
    for (int s = 0; s <= t; ++s) sum = fmaf(rb[s], x[s], sum);
    if (!lower_half) {
      read_row(tile_tokens + t, tile_tokens, rb);
#pragma unroll
      for (int s = 0; s <= t; ++s) sum = fmaf(rb[s], v[s], sum);
    }
    (lower_half ? out.r : out.y)[t][channel] = sum;
  }
}

constexpr int carry_warps = 4, warp_rows = 2, block_rows = carry_warps * warp_rows;
constexpr int row_blocks = head_size / block_rows;
constexpr int stages = 3;

struct Stage {
  float a[tile_tokens][head_size], r[tile_tokens][head_size];
  float b[tile_tokens][head_size], k[tile_tokens][head_size];
  float decay[head_size];
};
static_assert(sizeof(Stage) == carried_floats * sizeof(float));

struct CarryMemory {
  Stage stage[stages];
  float2 sa_v[carry_warps][2 * tile_tokens];  // SA and V of a warp's two rows
};

// Adds up values over the 32 lanes, two for each of 32 vectors: lane i gets the sums of vector i.
// At each step a lane keeps half of its vectors and hands the others to its partner.
template <int half>
__device__ float2 sum_of_own(float (&x)[32], float (&y)[32]) {
  const bool upper = threadIdx.x & half;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const float send_x = upper ? x[i] : x[i + half], send_y = upper ? y[i] : y[i + half];
    const float keep_x = upper ? x[i + half] : x[i], keep_y = upper ? y[i + half] : y[i];
    x[i] = keep_x + __shfl_xor_sync(~0u, send_x, half);
    y[i] = keep_y + __shfl_xor_sync(~0u, send_y, half);
  }
  if constexpr (half > 1) return sum_of_own<half / 2>(x, y);
  return {x[0], y[0]};
}

__device__ inline float2 two(const float* from) { return *reinterpret_cast<const float2*>(from); }

// Two neighbours as they lie in memory.
template <class Real>
struct Pair;
template <>
struct Pair<float> {
  float2 raw;
  __device__ void load(const float* from) { raw = two(from); }
  __device__ float2 get() const { return raw; }
};
template <>
struct Pair<bf16> {
  uint32_t raw;
  __device__ void load(const bf16* from) { raw = __ldg(reinterpret_cast<const uint32_t*>(from)); }
  __device__ float2 get() const {
    return {__uint_as_float(raw << 16), __uint_as_float(raw & 0xffff0000u)};
  }
};

__device__ inline void store_two(float* to, float2 x) { *reinterpret_cast<float2*>(to) = x; }
__device__ inline void store_two(bf16* to, float2 x) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x.x, x.y);
}

template <class Real>
__global__ __launch_bounds__(carry_warps * 32) void carry_kernel(DeltaRule<Real> op, int64_t tiles,
                                                                 const TileTerms* all,
                                                                 float* final_state) {
  extern __shared__ float4 raw_memory[];
  CarryMemory& memory = *reinterpret_cast<CarryMemory*>(raw_memory);
  const int64_t of_head = blockIdx.x / row_blocks;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half_lane = lane % 16;
  const int row = int(blockIdx.x % row_blocks) * block_rows + warp * warp_rows;
  const int64_t chunks = (op.position + op.time) / tile_tokens - op.position / tile_tokens;
  const TileTerms* const terms = all + of_head * tiles;
  const auto fetch = [&](int64_t index) {
    if (index < tiles) {
      constexpr int threads = carry_warps * 32, pieces = carried_floats / 4;
      const float4* const from = reinterpret_cast<const float4*>(&terms[index]) + threadIdx.x;
      float4* const to = reinterpret_cast<float4*>(&memory.stage[index % stages]) + threadIdx.x;
#pragma unroll
      for (int i = 0; i < pieces / threads; ++i)
        __pipeline_memcpy_async(to + i * threads, from + i * threads, 16);
      constexpr int rest = pieces / threads * threads;
      if (threadIdx.x < pieces - rest) __pipeline_memcpy_async(to + rest, from + rest, 16);
    }
    __pipeline_commit();
  };
  // Of the warp's two rows: lanes 0 to 15 have U of their token, the others Y0 and V. They are
  // asked for a tile ahead and looked at when it is there.
  struct Rows {
    float2 terms;
    Pair<Real> v;
    float tau;
  };
  const auto rows_of = [&](int64_t index) {
    Rows rows{};
    if (index >= tiles) return rows;
    const TileTerms& tile = terms[index];
    rows.terms = two(lane < 16 ? &tile.u[half_lane][row] : &tile.y[half_lane][row]);
    const int64_t token = (sequence * op.time + index * tile_tokens + half_lane) * op.heads + head;
    rows.v.load(op.v + token * head_size + row);
    if (op.tau) rows.tau = __ldg(op.tau + (sequence * chunks + index) * op.heads + head);
    return rows;
  };
  float2 S0{}, S1{};  // columns 2 lane, 2 lane + 1 of both rows
  if (op.initial) {
    const float* const from = op.initial + (of_head * head_size + row) * head_size + 2 * lane;
    S0 = two(from), S1 = two(from + head_size);
  }
  for (int i = 0; i < stages - 1; ++i) fetch(i);
  Rows rows = rows_of(0);
  for (int64_t index = 0; index < tiles; ++index) {
    __pipeline_wait_prior(stages - 2);
    __syncthreads();  // this stage has come for all, and the one before it has been read by all
    fetch(index + stages - 1);
    const Rows next = rows_of(index + 1);
    const Threshold threshold(op.tau ? rows.tau : 1.0f);
    const Stage& stage = memory.stage[index % stages];
    float x[32], y[32];
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      const float2 a = two(&stage.a[t][2 * lane]), r = two(&stage.r[t][2 * lane]);
      x[t] = fmaf(S0.y, a.y, S0.x * a.x), y[t] = fmaf(S1.y, a.y, S1.x * a.x);
      x[16 + t] = fmaf(S0.y, r.y, S0.x * r.x), y[16 + t] = fmaf(S1.y, r.y, S1.x * r.x);
    }
    float2 sum = sum_of_own<16>(x, y);
    sum.x += rows.terms.x, sum.y += rows.terms.y;
    if (lane < 16) {
      memory.sa_v[warp][lane] = sum;
    } else {
      memory.sa_v[warp][lane] = rows.v.get();
      const int64_t token =
          (sequence * op.time + index * tile_tokens + half_lane) * op.heads + head;
      store_two(op.y + token * head_size + row, sum);
    }
    __syncwarp();
    const float2 decay = two(&stage.decay[2 * lane]);
    S0.x *= decay.x, S0.y *= decay.y, S1.x *= decay.x, S1.y *= decay.y;
    float2 T0{}, T1{};  // a second chain of sums
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) {
      const float2 b = two(&stage.b[t][2 * lane]), k = two(&stage.k[t][2 * lane]);
      const float2 sa = memory.sa_v[warp][t], v = memory.sa_v[warp][16 + t];
      S0.x = fmaf(sa.x, b.x, S0.x), S0.y = fmaf(sa.x, b.y, S0.y);
      S1.x = fmaf(sa.y, b.x, S1.x), S1.y = fmaf(sa.y, b.y, S1.y);
      T0.x = fmaf(v.x, k.x, T0.x), T0.y = fmaf(v.x, k.y, T0.y);
      T1.x = fmaf(v.y, k.x, T1.x), T1.y = fmaf(v.y, k.y, T1.y);
    }
    S0.x += T0.x, S0.y += T0.y, S1.x += T1.x, S1.y += T1.y;
    if (op.tau) {
      const float largest = fmaxf(fmaxf(fabsf(S0.x), fabsf(S0.y)), fmaxf(fabsf(S1.x), fabsf(S1.y)));
      threshold.choose(largest, [&](auto&& of) {
        S0.x = of(S0.x), S0.y = of(S0.y), S1.x = of(S1.x), S1.y = of(S1.y);
      });
    }
    __syncwarp();  // sa_v has been read
    rows = next;
  }
  if (final_state) {
    float* const to = final_state + (of_head * head_size + row) * head_size + 2 * lane;
    store_two(to, S0), store_two(to + head_size, S1);
  }
}

}  // namespace

int64_t chunk_pass_floats(int64_t batch, int64_t heads, int64_t tiles) {
  return batch * heads * tiles * int64_t(sizeof(TileTerms) / sizeof(float));
}

template <class Real>
void chunk_pass(const DeltaRule<Real>& op, int64_t tiles, float* terms, float* final_state,
                const Gpu& gpu) {
  TileTerms* const all = reinterpret_cast<TileTerms*>(terms);
  const int64_t heads = op.batch * op.heads;
  launch(terms_kernel<Real>,
         Grid{dim3(unsigned(heads * tiles)), dim3(term_threads), sizeof(TermsMemory)}, gpu, op,
         tiles, all);
  launch(carry_kernel<Real>,
         Grid{dim3(unsigned(heads * row_blocks)), dim3(carry_warps * 32), sizeof(CarryMemory)}, gpu,
         op, tiles, all, final_state);
}

template void chunk_pass(const DeltaRule<float>&, int64_t, float*, float*, const Gpu&);
template void chunk_pass(const DeltaRule<bf16>&, int64_t, float*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
