// SANE backward where a block has 16 rows of a head: few warps run there, and one of them makes the
// derivatives for the consumer warp, a tile ahead, and computes the gradient of tau.
#pragma once

#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/cuda/state_fragment.cuh"

namespace deltasane::kernel::cuda {

using BlockRows = StateFragment<head_size, 1>;

// The gradients after a tile's neutralization, and the derivatives, times the decay, that make D of
// them.
struct DerivativeMemory {
  using OfLanes = float4[BlockRows::pieces][32];  // four numbers of each piece
  OfLanes gradients[2], derivatives[2];
};

// x: a tile's state after its neutralization, by tau; by_tau: the derivatives by tau at the tile
// after it.
struct DerivativeProducer {
  using OfLanes = DerivativeMemory::OfLanes;
  // Pieces in one pass of a loop: shorter code is worth more than fewer instructions. Then the
  // other pieces move to the front, because registers have no index.
  static constexpr int at_once = BlockRows::pieces / 2;
  int lane = threadIdx.x % 32;
  BlockRows x, by_tau;

  // Returns the part of tau's gradient at the tile after.
  __device__ float make(const OfLanes& gradient_after, const float* decay, OfLanes& derivatives) {
    float dtau[4] = {};
#pragma unroll 1
    for (int first = 0; first < BlockRows::pieces; first += at_once) {
      // Squares, which are not negative, are ordered as their bits, and the maximum of three
      // integers is one instruction.
      int largest = 0;
#pragma unroll
      for (int n = 0; n < at_once; ++n) {
        const float4 g = gradient_after[first + n][lane];
        const float(&derivative)[4] = by_tau.x[n];
        dtau[0] = fmaf(g.x, derivative[0], dtau[0]), dtau[1] = fmaf(g.y, derivative[1], dtau[1]);
        dtau[2] = fmaf(g.z, derivative[2], dtau[2]), dtau[3] = fmaf(g.w, derivative[3], dtau[3]);
        int bits[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) bits[i] = __float_as_int(x.x[n][i] * x.x[n][i]);
        largest = __vimax3_s32(largest, __vimax3_s32(bits[0], bits[1], bits[2]), bits[3]);
      }
      // A third branch, for tiny entries, made the code so long that SANE cost half as much again.
      if (__all_sync(~0u, __int_as_float(largest) < moderate_limit * moderate_limit))
        make_pieces(first, decay, derivatives, tau_derivative_moderate);
      else
        make_pieces(first, decay, derivatives, tau_derivative_any);
    }
    return (dtau[0] + dtau[1]) + (dtau[2] + dtau[3]);
  }
  // Of the pieces at the front.
  template <class TauDerivative>
  __device__ void make_pieces(int first, const float* decay, OfLanes& derivatives,
                              TauDerivative&& tau_derivative) {
    by_tau.shift_down(at_once);
#pragma unroll
    for (int n = 0; n < at_once; ++n) {
      const float2 w = BlockRows::of_columns(first + n, decay);
      float by_state[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float here = x.x[n][i], q = here * here;
        by_state[i] = state_derivative(q, i % 2 ? w.y : w.x);
        by_tau.x[BlockRows::pieces - at_once + n][i] = here * (q * tau_derivative(q));
      }
      derivatives[first + n][lane] = {by_state[0], by_state[1], by_state[2], by_state[3]};
    }
    x.shift_down(at_once);
  }
};

}  // namespace deltasane::kernel::cuda
