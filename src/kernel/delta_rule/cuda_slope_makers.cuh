// SANE on the way back where a block has 16 rows of a head: few warps run there, and one of them
// makes slopes for the one that owns the gradient, a tile ahead, and finds the gradient of tau.
#pragma once

#include "kernel/delta_rule/cuda_operands.cuh"
#include "kernel/delta_rule/cuda_slopes.cuh"

namespace deltasane::kernel::cuda {

using SharedRows = OwnColumns<head_size, 1>;

// The gradients after a tile's neutralization, and the slopes, with the decay, that make D of them.
struct SlopeMemory {
  using OfLanes = float4[SharedRows::pieces][32];  // four numbers of each piece
  OfLanes gradients[2], slopes[2];
};

// What a tile's neutralization left, by tau, and the slopes of tau at the tile after it.
struct SlopeMaker {
  using OfLanes = SlopeMemory::OfLanes;
  // Pieces: shorter code is worth more than fewer instructions. Other pieces move up then, for
  // registers have no index.
  static constexpr int at_once = SharedRows::pieces / 2;
  int lane = threadIdx.x % 32;
  SharedRows x, of_tau;

  // Returns the part of tau's gradient at the tile after.
  __device__ float make(const OfLanes& gradient_after, const float* decay, OfLanes& slopes) {
    float dtau[4] = {};
#pragma unroll 1
    for (int first = 0; first < SharedRows::pieces; first += at_once) {
      // Squares, not below 0, have the order of their bits, and the largest of three integers is
      // one instruction.
      int largest = 0;
#pragma unroll
      for (int n = 0; n < at_once; ++n) {
        const float4 g = gradient_after[first + n][lane];
        const float(&slope)[4] = of_tau.x[n];
        dtau[0] = fmaf(g.x, slope[0], dtau[0]), dtau[1] = fmaf(g.y, slope[1], dtau[1]);
        dtau[2] = fmaf(g.z, slope[2], dtau[2]), dtau[3] = fmaf(g.w, slope[3], dtau[3]);
        int bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = __float_as_int(x.x[n][i] * x.x[n][i]);
        largest = __vimax3_s32(largest, __vimax3_s32(bits[0], bits[1], bits[2]), bits[3]);
      }
      // A third way, for tiny ones, made the code so long that SANE cost half as much again.
      if (__all_sync(~0u, __int_as_float(largest) < moderate_part * moderate_part))
        make_pieces(first, decay, slopes, tau_slope_at_moderate);
      else
        make_pieces(first, decay, slopes, tau_slope_at_any);
    }
    return (dtau[0] + dtau[1]) + (dtau[2] + dtau[3]);
  }
  // Of pieces that have moved up to the front.
  template <class TauSlope>
  __device__ void make_pieces(int first, const float* decay, OfLanes& slopes,
                              TauSlope&& tau_slope) {
    of_tau.move_up(at_once);
#pragma unroll
    for (int n = 0; n < at_once; ++n) {
      const float2 w = SharedRows::of_columns(first + n, decay);
      float of_state[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float here = x.x[n][i], q = here * here;
        of_state[i] = state_slope(q, i % 2 ? w.y : w.x);
        of_tau.x[SharedRows::pieces - at_once + n][i] = here * (q * tau_slope(q));
      }
      slopes[first + n][lane] = {of_state[0], of_state[1], of_state[2], of_state[3]};
    }
    x.move_up(at_once);
  }
};

}  // namespace deltasane::kernel::cuda
