// SANE backward where a block has a whole head: the consumer warps, which hold rows of the
// gradient, compute the derivatives themselves from states that another warp loads into shared
// memory. Their part of tau's gradient is computed where they wait for the tensor cores.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/cuda/state_fragment.cuh"

namespace deltasane::kernel::cuda {

// States after the neutralizations at the ends of tiles, on their way to the consumers: of the
// current tile and of three to come. Consumers use its members directly and not through member
// functions: with those the compiler tests `this` for null and forgets that it is shared memory.
struct StateRing {
  static constexpr int stages = 4;
  SavedState state[stages];
  Mbarrier full[stages];
  struct Summary {
    float inverse_tau;    // 0 where a tile ends before its chunk does
    Magnitude magnitude;  // of all entries
  } summary[stages];
};

// Fills the ring from the last tile on, by one warp.
struct StateLoader {
  StateRing& ring;
  HeadBoundaries boundaries;
  bool leader = threadIdx.x % 32 == 0;
  float next_tau = 0;
  Magnitude next_magnitude = Magnitude::tiny;

  __device__ void begin() {
    NV_IF_TARGET(NV_PROVIDES_SM_90, (if (leader) {
                   for (Mbarrier& full : ring.full) mbarrier_init(full, 1);
                   fence_mbarrier_init();
                 }))
    __syncwarp();
    load(boundaries.tiles - 1);
    load_boundary(boundaries.tiles - 1);
  }
  // Unconditional, with a valid address: a conditional load would be waited for at once.
  __device__ void load_boundary(int tile) {
    const int there = min(max(tile, 0), boundaries.chunks - 1);
    next_tau = __ldg(boundaries.tau + there * boundaries.step);
    next_magnitude = Magnitude(__ldg(boundaries.magnitude + there));
  }
  // While the consumers are at the tile three later.
  __device__ void load(int tile) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                      (if (leader && tile >= 0) bulk_copy_async(
                           &ring.state[tile % StateRing::stages], boundaries.state + tile,
                           sizeof(SavedState), ring.full[tile % StateRing::stages]);),
                      (copy_pieces(tile);))
  }
  __device__ void copy_pieces(int tile) {
    constexpr int pieces = sizeof(SavedState) / sizeof(uint4);
    if (tile >= 0) {
      auto* const to = reinterpret_cast<uint4*>(&ring.state[tile % StateRing::stages]);
      const auto* const from = reinterpret_cast<const uint4*>(boundaries.state + tile);
      for (int i = threadIdx.x % 32; i < pieces; i += 32) copy_async(to + i, from + i);
    }
    commit_group();
  }
  // Before the consumers come to the tile after this one, where they read its summary. One later
  // tile is still being copied.
  __device__ void wait(int tile) {
    NV_IF_ELSE_TARGET(
        NV_PROVIDES_SM_90,
        (mbarrier_wait(ring.full[tile % StateRing::stages],
                       uint32_t((boundaries.tiles - 1 - tile) / StateRing::stages % 2));),
        (wait_group<1>(); __syncwarp();))
    if (leader) ring.summary[tile % StateRing::stages] = summary(tile);
    load_boundary(tile - 1);
  }
  __device__ StateRing::Summary summary(int tile) const {
    if (tile >= boundaries.chunks) return {0, Magnitude::any};
    // Derivatives of tiny entries are multiplied by powers of tau (ConsumerDerivatives), of which
    // none may be infinite.
    const bool in_range = next_tau > 1e-9f && next_tau < 1e9f;
    return {reciprocal(next_tau),
            next_magnitude == Magnitude::tiny && !in_range ? Magnitude::small : next_magnitude};
  }
};

// Of a consumer's rows at a tile's end. Tiny entries are not divided by tau; the polynomial is.
template <class Rows, Magnitude magnitude>
struct ConsumerDerivatives {
  float inverse_tau;
  Rows squares, cubes;  // of entries, by tau unless tiny; the cubes times the gradient
  static constexpr bool tiny = magnitude == Magnitude::tiny;

  __device__ explicit ConsumerDerivatives(float inverse_tau) : inverse_tau(inverse_tau) {}

  // The gradient of a piece, before SANE and the decay.
  __device__ void scale(Rows& D, int n, const float4& entries, const float* decay) {
    const float entry[4] = {entries.x, entries.y, entries.z, entries.w};
    const float2 w = Rows::of_columns(n, decay);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = tiny ? entry[i] : entry[i] * inverse_tau;
      float &q = squares.x[n][i], &d = D.x[n][i];
      q = x * x;
      const float less = d * q;
      cubes.x[n][i] = less * x;
      d = tiny ? fmaf(less, -inverse_tau * inverse_tau, d) : d - less;
      d *= i % 2 ? w.y : w.x;
    }
  }
  // This thread's part of tau's gradient.
  __device__ float dtau() const {
    const float unit = inverse_tau * inverse_tau;
    float sum[4] = {};
#pragma unroll
    for (int n = 0; n < Rows::pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float q = squares.x[n][i];
        const float derivative = tiny                            ? tau_derivative_tiny(q, unit)
                                 : magnitude == Magnitude::small ? tau_derivative_small(q)
                                                                 : tau_derivative_any(q);
        sum[i] = fmaf(cubes.x[n][i], derivative, sum[i]);
      }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) * (tiny ? unit * inverse_tau : 1);
  }
};

}  // namespace deltasane::kernel::cuda
