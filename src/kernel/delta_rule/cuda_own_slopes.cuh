// SANE on the way back where a block has a whole head: the warps that own rows of the gradient find
// their slopes themselves, out of states that another warp brings into shared memory. What tau's
// gradient takes is left for where an owner waits for the tensor cores.
#pragma once

#include "kernel/cuda_async.cuh"
#include "kernel/delta_rule/cuda_operands.cuh"
#include "kernel/delta_rule/cuda_slopes.cuh"

namespace deltasane::kernel::cuda {

// What neutralizations left at the ends of tiles, on their way to the owners: of the tile that they
// are at, and of three to come. Owners name its members, not functions of it: for those the
// compiler would ask whether there is a ring, and forget that it lies in shared memory.
struct StateRing {
  static constexpr int places = 4;
  KeptState state[places];
  Signal come[places];
  struct Note {
    float inverse_tau;  // 0 where a tile ends before its chunk does
    Reach reach;        // of all entries
  } note[places];
};

// Fills the ring from the last tile on, by one warp.
struct StateBringer {
  StateRing& ring;
  HeadEnds ends;
  bool speaker = threadIdx.x % 32 == 0;
  float next_tau = 0;
  Reach next_reach = Reach::tiny;

  __device__ void begin() {
    NV_IF_TARGET(NV_PROVIDES_SM_90, (if (speaker) {
                   for (Signal& signal : ring.come) set_up(signal, 1);
                   show_signals_to_copies();
                 }))
    __syncwarp();
    ask_for(ends.tiles - 1);
    ask_for_end(ends.tiles - 1);
  }
  // Always asks, for what is there: what is asked for under a condition is waited for.
  __device__ void ask_for_end(int tile) {
    const int there = min(max(tile, 0), ends.chunks - 1);
    next_tau = __ldg(ends.tau + there * ends.step);
    next_reach = Reach(__ldg(ends.reach + there));
  }
  // While the owners are at the tile three later.
  __device__ void ask_for(int tile) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                      (if (speaker && tile >= 0)
                           copy_at_once(&ring.state[tile % StateRing::places], ends.left + tile,
                                        sizeof(KeptState), ring.come[tile % StateRing::places]);),
                      (copy_by_pieces(tile);))
  }
  __device__ void copy_by_pieces(int tile) {
    constexpr int pieces = sizeof(KeptState) / sizeof(uint4);
    if (tile >= 0) {
      auto* const to = reinterpret_cast<uint4*>(&ring.state[tile % StateRing::places]);
      const auto* const from = reinterpret_cast<const uint4*>(ends.left + tile);
      for (int i = threadIdx.x % 32; i < pieces; i += 32) copy_async(to + i, from + i);
    }
    close_group();
  }
  // Before the owners come to the tile after this one, where they ask which way they will go. One
  // later tile is still on its way.
  __device__ void finish(int tile) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                      (wait_for(ring.come[tile % StateRing::places],
                                uint32_t((ends.tiles - 1 - tile) / StateRing::places % 2));),
                      (wait_for_groups<1>(); __syncwarp();))
    if (speaker) ring.note[tile % StateRing::places] = note(tile);
    ask_for_end(tile - 1);
  }
  __device__ StateRing::Note note(int tile) const {
    if (tile >= ends.chunks) return {0, Reach::any};
    // Tiny ones are multiplied by powers of tau (OwnSlopes), of which none may be infinite.
    const bool plain = next_tau > 1e-9f && next_tau < 1e9f;
    return {reciprocal(next_tau), next_reach == Reach::tiny && !plain ? Reach::small : next_reach};
  }
};

// Of an owner's rows at a tile's end. Tiny entries are not divided by tau, the polynomial is.
template <class Rows, Reach reach>
struct OwnSlopes {
  float inverse_tau;
  Rows squares, cubes;  // of entries, by tau if they are; the latter times the gradient
  static constexpr bool tiny = reach == Reach::tiny;

  __device__ explicit OwnSlopes(float inverse_tau) : inverse_tau(inverse_tau) {}

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
        const float slope = tiny                    ? tau_slope_at_tiny(q, unit)
                            : reach == Reach::small ? tau_slope_at_small(q)
                                                    : tau_slope_at_any(q);
        sum[i] = fmaf(cubes.x[n][i], slope, sum[i]);
      }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) * (tiny ? unit * inverse_tau : 1);
  }
};

}  // namespace deltasane::kernel::cuda
