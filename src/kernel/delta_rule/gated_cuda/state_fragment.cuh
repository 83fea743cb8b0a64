// 16 rows and 32 columns of a state, or of its gradient, in the registers of a warp.
#pragma once

#include "base/error.h"
#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/gated_cuda/stages.cuh"

namespace deltasane::kernel::cuda {

template <int keys>
struct StateFragment {
  Accumulator half[2];  // of 16 columns each

  template <class Use>  // use(two neighbours in memory, first of two entries)
  __device__ void each_pair(int64_t row, int column, Use&& use) {
    const int lane = threadIdx.x % 32;
    const int64_t at = (row + lane / 4) * keys + column + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int below = 0; below < 2; ++below)
        use(at + 8 * n + 8 * below * keys, half[n / 2].c[n % 2][2 * below],
            half[n / 2].c[n % 2][2 * below + 1]);
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
    for (int n = 0; n < 4; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(half[n / 2].c[n % 2][i]);
  }
  // column: the first of this half's.
  template <class Stage>
  __device__ void decay_and_add(int h, const Stage& stage, int column, const Accumulator& added) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float2 decay = stage.decay(column + 8 * p + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        half[h].c[p][i] = fmaf(half[h].c[p][i], i % 2 ? decay.y : decay.x, added.c[p][i]);
    }
  }
};

// Stores x, whose rows are channels and whose columns are a tile's tokens, as vectors of tokens.
__device__ inline void store_transposed(const Accumulator& x, bf16* to, int64_t step,
                                        const Tiles& tiles, int first) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int below = 0; below < 2; ++below) {
      const uint32_t two =
          movmatrix_transposed(pack_bf16(x.c[p][2 * below], x.c[p][2 * below + 1]));
      const int token = first + 8 * p + lane / 4;
      if (tiles.present(token))
        *reinterpret_cast<uint32_t*>(to + token * step + 8 * below + lane % 4 * 2) = two;
    }
}

// Whether blocks have 32 rows of a state, which halves what is copied of the terms: where there are
// enough blocks then.
inline bool shares_terms(const GatedRule& op, const Gpu& gpu) {
  return op.values % 32 == 0 &&
         op.batch * op.heads * op.values / 32 >= gpu.properties().multiprocessors;
}

inline void expect_shared(size_t bytes, const Gpu& gpu) {
  if (bytes > gpu.properties().shared_bytes)
    fail(Fault::device, "gated rules on cuda:", gpu.index(), " (", gpu.properties().name,
         "): expected ", bytes >> 10, " KiB of shared memory a block, found ",
         gpu.properties().shared_bytes >> 10, " KiB; use a CPU or another GPU");
}

}  // namespace deltasane::kernel::cuda
