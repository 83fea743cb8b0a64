// Attention of prompts on the tensor cores, with an online softmax (FlashAttention).
//
// A query is a token's head. A block has 64 queries whose heads share keys and values, 16 for each
// of its warps, and takes the rows that any of them sees 32 at a time: the next ones are copied
// while these are used. A warp has its queries' sums of values in registers.
#include "base/choose.h"
#include "kernel/attention/cache_rows.cuh"
#include "kernel/attention/cuda.h"
#include "kernel/cuda/approximate_math.cuh"
#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int warps = 4, queries = 16 * warps, tile_keys = 32;

template <int size>
struct TileMemory {
  SplitMatrix<1, queries, size> q;
  struct Stage {
    SplitMatrix<1, tile_keys, size> k, v;
  } stage[2];
};

// The rows that a block's queries see, as tiles: first those of the first tokens that a window
// keeps, then the others from `begin` on.
struct KeyTiles {
  int64_t kept, begin, end;  // positions: [0, kept), [begin, end)
  int kept_tiles, count;
  __device__ KeyTiles(int64_t first, int64_t last, int64_t window, int64_t kept_rows) {
    const Seen seen(first, window, kept_rows);
    kept = seen.kept, begin = seen.begin, end = last + 1;
    kept_tiles = int((kept + tile_keys - 1) / tile_keys);
    count = kept_tiles + int((end - begin + tile_keys - 1) / tile_keys);
  }
  __device__ int64_t position(int tile) const {
    return tile < kept_tiles ? int64_t(tile) * tile_keys
                             : begin + int64_t(tile - kept_tiles) * tile_keys;
  }
  __device__ int64_t limit(int tile) const { return tile < kept_tiles ? kept : end; }
};

// Rows of `size` numbers into shared memory, by all threads; from(row): its address, null for zeros.
template <int rows, int size, class From>
__device__ void copy_rows(SplitMatrix<1, rows, size>& to, const void* anywhere, From&& from) {
  constexpr int pieces = size / 8;
  for (int i = int(threadIdx.x); i < rows * pieces; i += 32 * warps) {
    const bf16* const at = from(i / pieces);
    copy_async(reinterpret_cast<uint4*>(to.at(0, i / pieces, i % pieces * 8)),
               at ? static_cast<const void*>(at + i % pieces * 8) : anywhere, at != nullptr);
  }
}

__device__ inline void add_product(Accumulator& to, const FragmentA<1>& a, const FragmentB<1>& b) {
  mma(to.c[0], a.plane[0], b.plane[0][0], b.plane[0][1]);
  mma(to.c[1], a.plane[0], b.plane[0][2], b.plane[0][3]);
}
// Of the four lanes that have a row of an accumulator.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}

template <int size>
__global__ void __launch_bounds__(32 * warps)
    attend_tiles(const __grid_constant__ Attention<bf16> op) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = *reinterpret_cast<TileMemory<size>*>(dynamic_shared);
  const int sequence = int(blockIdx.z), kv_head = int(blockIdx.y);
  const int group = int(op.heads / op.kv_heads);
  const int64_t all = int64_t(op.rows.length[sequence]) * group;  // queries
  // The last tokens see most: their blocks start first.
  const int64_t first = int64_t(gridDim.x - 1 - blockIdx.x) * queries;
  if (first >= all) return;
  const int64_t first_row = op.rows.first[sequence], start = op.rows.position[sequence];
  const int64_t last = (first + queries < all ? first + queries : all) - 1;
  const KeyTiles tiles(start + first / group, start + last / group, op.window, op.kept);
  const CacheRows<bf16> cache(op.cache, sequence, 2 * op.kv_heads * size);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  const auto load_tile = [&](int tile) {
    auto& stage = memory.stage[tile % 2];
    const int64_t from = tiles.position(tile), limit = tiles.limit(tile);
    copy_rows(stage.k, cache.data, [&](int i) -> const bf16* {
      return from + i < limit ? cache.at(from + i) + int64_t(kv_head) * size : nullptr;
    });
    copy_rows(stage.v, cache.data, [&](int i) -> const bf16* {
      return from + i < limit ? cache.at(from + i) + (op.kv_heads + kv_head) * size : nullptr;
    });
  };
  copy_rows(memory.q, op.q, [&](int i) -> const bf16* {
    const int64_t query = first + i;
    if (query >= all) return nullptr;
    const int64_t head = int64_t(kv_head) * group + query % group;
    return op.q + (first_row + query / group) * op.q_step + head * size;
  });
  load_tile(0);
  commit_group();

  // This lane's two rows of a warp's 16 queries.
  int64_t position[2];
  float largest[2] = {-INFINITY, -INFINITY}, sum[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t query = first + 16 * warp + lane / 4 + 8 * r;
    position[r] = query < all ? start + query / group : -1;  // -1: sees nothing
  }
  Accumulator y[size / 16];
  const float scale = op.scale * 1.442695041f;  // log2(e)

  for (int tile = 0; tile < tiles.count; ++tile) {
    wait_group<0>();
    __syncthreads();
    if (tile + 1 < tiles.count) {
      load_tile(tile + 1);
      commit_group();
    }
    auto& stage = memory.stage[tile % 2];
    Accumulator score[tile_keys / 16];
#pragma unroll
    for (int c = 0; c < size; c += 16) {
      FragmentA<1> q;
      q.template load<Layout::row_major>(memory.q, 16 * warp, c);
#pragma unroll
      for (int n = 0; n < tile_keys / 16; ++n) {
        FragmentB<1> k;
        k.template load<Layout::transposed>(stage.k, c, 16 * n);
        add_product(score[n], q, k);
      }
    }
    const int64_t from = tiles.position(tile), limit = tiles.limit(tile);
    const bool is_kept = tile < tiles.kept_tiles;
    float most[2] = {largest[0], largest[1]};
#pragma unroll
    for (int n = 0; n < tile_keys / 16; ++n)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& x = score[n].c[i / 4][i % 4];
        const int r = i % 4 / 2;
        const int64_t key = from + 16 * n + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const bool sees = key < limit && key <= position[r] &&
                          (is_kept || op.window == 0 || key > position[r] - op.window ||
                           key < op.kept);
        x = sees ? x * scale : -INFINITY;
        most[r] = fmaxf(most[r], x);
      }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      most[r] = row_max(most[r]);
      const float reference = most[r] == -INFINITY ? 0.0f : most[r];
      factor[r] = exp2_approx(largest[r] - reference);
      largest[r] = most[r], most[r] = reference;
      sum[r] *= factor[r];
    }
#pragma unroll
    for (int n = 0; n < tile_keys / 16; ++n)
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& x = score[n].c[i / 4][i % 4];
        x = exp2_approx(x - most[i % 4 / 2]);
        sum[i % 4 / 2] += x;
      }
#pragma unroll
    for (int c = 0; c < size / 16; ++c)
#pragma unroll
      for (int i = 0; i < 8; ++i) y[c].c[i / 4][i % 4] *= factor[i % 4 / 2];
#pragma unroll
    for (int n = 0; n < tile_keys / 16; ++n) {
      const FragmentA<1> weight(score[n]);
#pragma unroll
      for (int c = 0; c < size / 16; ++c) {
        FragmentB<1> v;
        v.template load<Layout::row_major>(stage.v, 16 * n, 16 * c);
        add_product(y[c], weight, v);
      }
    }
    __syncthreads();  // before this stage is filled again
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] = row_sum(sum[r]);
    const int64_t query = first + 16 * warp + lane / 4 + 8 * r;
    if (query >= all) continue;
    const int64_t head = int64_t(kv_head) * group + query % group;
    bf16* const to = op.y + ((first_row + query / group) * op.heads + head) * size;
    const float inverse = 1.0f / sum[r];
#pragma unroll
    for (int c = 0; c < size / 16; ++c)
#pragma unroll
      for (int p = 0; p < 2; ++p)
        *reinterpret_cast<uint32_t*>(to + 16 * c + 8 * p + lane % 4 * 2) =
            pack_bf16(y[c].c[p][2 * r] * inverse, y[c].c[p][2 * r + 1] * inverse);
  }
}

}  // namespace

bool has_attention_tiles(int64_t size) { return size == 64 || size == 128 || size == 256; }

void attention_by_tiles(const Attention<bf16>& op, const Gpu& gpu) {
  require_aligned(op.q, op.y);
  require(op.q_step % 8 == 0, "attention: expected rows at multiples of 16 bytes");
  const int64_t tiles = (op.rows.longest * (op.heads / op.kv_heads) + queries - 1) / queries;
  choose<64, 128, 256>(op.size, "channels per head", [&]<int size>() {
    launch(attend_tiles<size>,
           {dim3(unsigned(tiles), unsigned(op.kv_heads), unsigned(op.rows.sequences)), 32 * warps,
            sizeof(TileMemory<size>)},
           gpu, op);
  });
}

}  // namespace deltasane::kernel::cuda
