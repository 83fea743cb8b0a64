// What of a tile does not depend on the state. Let d_t be the decay since the tile began, up to
// token t, d the decay of the whole tile, and d_ts that after token s up to token t, per key channel
// or one for all: none of them is above 1. With S0 the state before the tile,
//
//     E = T (V - K_in S0')            T = (I + L diag(beta))^-1     L_ts = sum d_ts k_t k_s,  s < t
//     Y = Q_in S0' + P diag(beta) E                                 P_ts = sum d_ts r_t k_s,  s <= t
//     S = S0 diag(d) + E' diag(beta) K_out
//
//     rows of K_in: d_t k_t       of Q_in: d_t r_t       of K_out: (d / d_t) k_t
//
// or, with one product less between a state and the next ("solved"),
//
//     E = U - W S0'                   U = T V       W = T K_in
//
// Backward, with H the gradient of S:
//
//     dE = diag(beta) P' dY + diag(beta) K_out H'
//     dV = T' dE
//     dS0 = H diag(d) + dY' Q_in - dV' K_in = H diag(d) + dY' Q_in - dE' W
//
// Rows of S are independent. One decay for all channels is left out of the vectors, which are then
// exact in bf16, and multiplied with the products. W is not: it would take more memory than all else of
// a tile, and is made only where each channel has its decay.
#pragma once

#include <type_traits>

#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/cuda/neutralize.cuh"
#include "kernel/delta_rule/gated_cuda/blocked_matrix.cuh"
#include "kernel/delta_rule/gated_cuda/tiles.cuh"

namespace deltasane::kernel::cuda {

enum class Decay { per_head, per_channel };

// Planes of what the state or its gradient depends on: 16 bits.
constexpr int gated_planes = 2;
using TileMatrix = SplitMatrix<gated_planes, tile_size, tile_size>;

// W: rows are tokens, columns key channels, as in blocked_matrix.cuh.
template <int columns>
struct SolvedKeys {
  static constexpr int planes = gated_planes;
  static constexpr int bytes_of_16_columns = 2 * 64 * sizeof(__nv_bfloat16);
  alignas(16) __nv_bfloat16 plane[planes][tile_size * columns];
  __device__ const __nv_bfloat16* at(int p, int row, int column) const {
    return plane[p] + (row / 8 * (columns / 8) + column / 8) * 64 + row % 8 * 8 + column % 8;
  }
  // Of 16 columns, by a warp.
  __device__ void store(const FragmentA<planes>& x, int column) {
#pragma unroll
    for (int p = 0; p < planes; ++p)
      BlockedMatrix{reinterpret_cast<uint32_t*>(plane[p]), columns / 8}.store(x.plane[p], 0,
                                                                              column);
  }
};

// tau tanh(x / tau) for |x| below a quarter of tau: as Tanh, with fewer instructions. Made with the terms of the tile before, so that no warp waits for tau.
struct alignas(16) TanhOfSmall {
  float tau, c0, c1, c2;  // tau 0: no SANE
  TanhOfSmall() = default;
  __device__ explicit TanhOfSmall(float t) : tau(t), c0(0), c1(0), c2(0) {
    if (!(tau > 0)) return;
    const float inverse = reciprocal_approx(tau), unit = inverse * inverse;
    c0 = -0.333332777f * unit, c1 = 0.133261727f * unit * unit;
    c2 = -0.051651978f * unit * unit * unit;
  }
  // Of the entries' magnitudes; for a smaller tau powers of `unit` are infinite.
  __device__ float bound() const { return tau > 1e-5f ? Tanh::quarter * tau : 0; }
  __device__ float operator()(float x) const {
    const float q = x * x;
    return fmaf(x * q, fmaf(q, fmaf(q, c2, c1), c0), x);
  }
};

// The same with fewer instructions for X = g x (TinyPolynomial); g is in the decay and in what is added.
struct alignas(16) TinyTerms {
  float b, c, a, bound;  // of |X|
  float below;           // s, where X is tiny
  float inverse_g, tau;
  float decay;  // g d, where one decay is for all channels
  TinyTerms() = default;
  __device__ TinyTerms(const Boundary& boundary, float d)
      : b(boundary.tiny.b),
        c(boundary.tiny.c),
        a(boundary.tiny.a),
        bound(boundary.tiny.tau > 1e-37f ? tiny_limit * boundary.tiny.tau * boundary.factor.high
                                         : 0),
        below(boundary.tiny.below),
        inverse_g(boundary.tiny.inverse_g()),
        tau(boundary.tiny.tau),
        decay(d) {}
};

constexpr size_t memory_line = 128;  // bytes; copies of what begins within one read one more
struct PerHeadTerms {
  TileMatrix inverse, read;  // T, P diag(beta)
  alignas(16) float in[tile_size];
  float out[tile_size];       // d_t; beta_t d / d_t
  float decay[8];             // d, and padding
  TinyTerms tiny;             // of SANE after the tile
  float tiny_out[tile_size];  // g beta_t d / d_t
};
static_assert(sizeof(PerHeadTerms) % memory_line == 0);
// Forward needs the first plane of Q_in only.
template <int keys, int q_planes = gated_planes>
struct PerChannelTerms {
  TileMatrix inverse, read;
  alignas(16) float decay[keys];
  TanhOfSmall sane;  // after the tile
  TinyTerms tiny;    // likewise; if it is used, g is in `decay` and in `k_out`
  float4 padding[memory_line / sizeof(float4) - 3];
  SolvedKeys<keys> w;
  SplitMatrix<gated_planes, tile_size, keys> k_out;  // times beta
  SplitMatrix<q_planes, tile_size, keys> q_in;
};
template <Decay decay, int keys>
using TileTerms = std::conditional_t<decay == Decay::per_head, PerHeadTerms, PerChannelTerms<keys>>;
static_assert(sizeof(PerChannelTerms<128>) % memory_line == 0);
template <Decay decay>
constexpr bool solved_terms = decay == Decay::per_channel;

// e^g, g <= 0.
__device__ inline float decay_of(float g) {
  constexpr float log2_e = 1.44269504f;
  return exp2_approx(g * log2_e);
}
// Sums of g over tokens as decays: [s + 1][t] is the one after token s up to token t, 1 where t <= s.
// Lane t has token t's g; by one warp.
template <int stride>
__device__ void decays_between(float g, float (&decays)[tile_size + 1][stride]) {
  const int lane = threadIdx.x % 32;
  float* const row = decays[min(lane, tile_size)];  // the last lanes': 1
  float sum = 0;
#pragma unroll
  for (int t = 0; t < tile_size; ++t) {
    const float of_t = __shfl_sync(~0u, g, t);
    if (lane <= t) sum += of_t;
    row[t] = decay_of(sum);
  }
}

// T of a = L diag(beta), whose upper part and diagonal do not count; lane j < 16 gets column j.
template <int stride>
__device__ void invert(const float (&a)[tile_size][stride], int column, float (&T)[tile_size]) {
#pragma unroll
  for (int i = 0; i < tile_size; ++i) {
    float sum[2] = {i == column ? 1.0f : 0.0f, 0};
#pragma unroll
    for (int four = 0; four < i; four += 4) {
      const float4 x = *reinterpret_cast<const float4*>(&a[i][four]);
      const float of_row[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int s = four; s < min(i, four + 4); ++s)
        sum[s % 2] = fmaf(-of_row[s - four], T[s], sum[s % 2]);
    }
    T[i] = sum[0] + sum[1];
  }
}

}  // namespace deltasane::kernel::cuda
