// 16 rows and some columns of a state, or of its gradient, in the registers of a warp.
#pragma once

#include "base/error.h"
#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/gated_cuda/stages.cuh"

namespace deltasane::kernel::cuda {

template <class Division>
struct StateFragment {
  static constexpr int keys = Division::keys, parts = Division::columns / 16;
  Accumulator part[parts];  // of 16 columns each

  template <class Use>  // use(place of two neighbours in memory, first, second)
  __device__ void each_pair(int64_t row, int column, Use&& use) {
    const int lane = threadIdx.x % 32;
    const int64_t at = (row + lane / 4) * keys + column + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 2 * parts; ++n)
#pragma unroll
      for (int below = 0; below < 2; ++below)
        use(at + 8 * n + 8 * below * keys, part[n / 2].c[n % 2][2 * below],
            part[n / 2].c[n % 2][2 * below + 1]);
  }
  __device__ void load(const float* state, int row, int column) {  // null: zeros
    if (!state) return;
    each_pair(row, column, [&](int64_t at, float& x, float& next) {
      const float2 two = *reinterpret_cast<const float2*>(state + at);
      x = two.x, next = two.y;
    });
  }
  __device__ void store(float* state, int row, int column) {
    each_pair(row, column, [&](int64_t at, float& x, float& next) {
      *reinterpret_cast<float2*>(state + at) = {x, next};
    });
  }
  template <class Map>  // map(entry)
  __device__ void each(Map&& map) {
#pragma unroll
    for (int n = 0; n < 2 * parts; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(part[n / 2].c[n % 2][i]);
  }
  // column: the first of this part's.
  template <class Stage>
  __device__ void decay_and_add(int n, const Stage& stage, int column, const Accumulator& added) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float2 decay = stage.decay(column + 8 * p + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        part[n].c[p][i] = fmaf(part[n].c[p][i], i % 2 ? decay.y : decay.x, added.c[p][i]);
    }
  }
  // most: the largest magnitudes, in chains of a quarter of the latency.
  __device__ void add_magnitudes(int n, float (&most)[4]) const {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) most[i] = fmaxf(most[i], fabsf(part[n].c[p][i]));
  }
  // Whether the magnitudes of all entries of the warp are below a bound.
  __device__ bool below(float bound) const {
    float most[4] = {};  // in chains of a quarter of the latency
#pragma unroll
    for (int n = 0; n < 2 * parts; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) most[i] = fmaxf(most[i], fabsf(part[n / 2].c[n % 2][i]));
    return __all_sync(~0u, fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3])) < bound);
  }
  // SANE of one part, if all entries of the warp are small enough for it.
  __device__ void neutralize(int n, const TanhOfSmall& tanh) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) part[n].c[p][i] = tanh(part[n].c[p][i]);
  }
  // SANE of entries of any size, given that not all are below the bound of TanhOfSmall.
  __device__ void neutralize_large(float tau) {
    Tanh(tau).apply([&](auto&& map) { each(map); });
  }
  // SANE, with the bits that either of these gives.
  __device__ void neutralize(float tau) {
    const TanhOfSmall small(tau);
    if (!below(small.bound())) return neutralize_large(tau);
#pragma unroll
    for (int n = 0; n < parts; ++n) neutralize(n, small);
  }
};

// Stores what has rows of channels and columns of a tile's tokens as vectors of tokens, tile after tile:
// where this lane's words of the next tile go.
struct TransposedRows {
  bf16* to;
  int64_t step;
  __device__ TransposedRows(bf16* rows, int64_t row_step, int first)
      : to(rows + (first + int(threadIdx.x) % 32 / 4) * row_step + threadIdx.x % 4 * 2),
        step(row_step) {}
  __device__ void store(const Accumulator& x, const Tiles& tiles, int first) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const uint32_t two[2] = {movmatrix_transposed(pack_bf16(x.c[p][0], x.c[p][1])),
                               movmatrix_transposed(pack_bf16(x.c[p][2], x.c[p][3]))};
      if (tiles.present(first + 8 * p + lane / 4)) {
        reinterpret_cast<uint32_t*>(to)[0] = two[0];
        reinterpret_cast<uint32_t*>(to)[4] = two[1];
      }
      to += 8 * step;
    }
  }
};
// One tile.
__device__ inline void store_transposed(const Accumulator& x, bf16* to, int64_t step,
                                        const Tiles& tiles, int first) {
  TransposedRows(to, step, first).store(x, tiles, first);
}

inline void expect_shared(size_t bytes, const Gpu& gpu) {
  if (bytes > gpu.properties().shared_bytes)
    fail(Fault::device, "gated rules on cuda:", gpu.index(), " (", gpu.properties().name,
         "): expected ", bytes >> 10, " KiB of shared memory a block, found ",
         gpu.properties().shared_bytes >> 10, " KiB; use a CPU or another GPU");
}

}  // namespace deltasane::kernel::cuda
