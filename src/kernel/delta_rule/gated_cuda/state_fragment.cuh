// 16 rows and some columns of a state, or of its gradient, in the registers of a warp.
#pragma once

#include "base/error.h"
#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"
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
  template <class Stage, class Sums>
  __device__ void decay_and_add(int n, const Stage& stage, int column, const Sums& added) {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float2 decay = stage.decay(column + 8 * p + threadIdx.x % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        part[n].c[p][i] = fmaf(part[n].c[p][i], i % 2 ? decay.y : decay.x, added.large.c[p][i]) +
                          added.small[0].c[p][i];
    }
  }
  // The largest magnitude of this lane's entries, in chains of a quarter of the latency.
  __device__ float largest() const {
    float most[4] = {};
#pragma unroll
    for (int n = 0; n < 2 * parts; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) most[i] = fmaxf(most[i], fabsf(part[n / 2].c[n % 2][i]));
    return fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
  }
  // SANE. As Tanh of neutralize.cuh, with fewer instructions where all entries of the warp are below
  // a quarter of tau.
  __device__ void neutralize(float tau) {
    const Tanh tanh(tau);
    if (!__all_sync(~0u, largest() * tanh.inverse < Tanh::quarter))
      return tanh.apply([&](auto&& map) { each(map); });
    const float unit = tanh.inverse * tanh.inverse;
    const float c0 = -0.333332777f * unit, c1 = 0.133261727f * unit * unit,
                c2 = -0.051651978f * unit * unit * unit;
    each([&](float& x) {
      const float q = x * x;
      x = fmaf(x * q, fmaf(q, fmaf(q, c2, c1), c0), x);
    });
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

// Whether ManyHeads is used.
inline bool many_heads(const GatedRule& op, const Gpu& gpu) {
  constexpr int64_t rows = ManyHeads<64>::rows;
  return op.values % rows == 0 &&
         op.batch * op.heads * op.values / rows >= gpu.properties().multiprocessors;
}

inline void expect_shared(size_t bytes, const Gpu& gpu) {
  if (bytes > gpu.properties().shared_bytes)
    fail(Fault::device, "gated rules on cuda:", gpu.index(), " (", gpu.properties().name,
         "): expected ", bytes >> 10, " KiB of shared memory a block, found ",
         gpu.properties().shared_bytes >> 10, " KiB; use a CPU or another GPU");
}

}  // namespace deltasane::kernel::cuda
