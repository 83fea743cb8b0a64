// The results of a tile in input_backward.cu: the gradients of the vectors, with the decay put
// back, and those of the decay.
#pragma once

#include "kernel/delta_rule/cuda/input_backward_products.cuh"

namespace deltasane::kernel::cuda {
namespace {

// Stores a row of an Accumulator: a lane has the numbers x of the first piece and y of the second,
// and `to` is where the row begins. bf16: of two neighbours each takes one piece, so that a warp
// writes whole sectors.
__device__ void store_packed(bf16* to, uint32_t x, uint32_t y, bool wanted) {
  const int lane = threadIdx.x % 32;
  const bool second = lane % 2;
  const uint32_t other = __shfl_xor_sync(~0u, second ? x : y, 1);
  if (wanted)
    *reinterpret_cast<uint2*>(to + (second ? 8 : 0) + lane % 4 / 2 * 4) =
        second ? make_uint2(other, y) : make_uint2(x, other);
}
__device__ void store_row(bf16* to, float2 x, float2 y, bool wanted) {
  store_packed(to, pack_bf16(x.x, x.y), pack_bf16(y.x, y.y), wanted);
}
__device__ void store_row(float* to, float2 x, float2 y, bool wanted) {
  const int column = threadIdx.x % 4 * 2;
  if (!wanted) return;
  *reinterpret_cast<float2*>(to + column) = x, *reinterpret_cast<float2*>(to + 8 + column) = y;
}
// Stores the transpose of an Accumulator: token t's row begins at to + t * step.
__device__ void store_transposed(bf16* to, int step, int count, const Accumulator& sums) {
  const int line = threadIdx.x % 32 / 4;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int t = 8 * p + line;
    const float(&c)[4] = sums.c[p];
    store_packed(to + t * step, movmatrix_transposed(pack_bf16(c[0], c[1])),
                 movmatrix_transposed(pack_bf16(c[2], c[3])), t < count);
  }
}
__device__ void store_transposed(float* to, int step, int count, const Accumulator& sums) {
  sums.each([&](int i, int t, float x, float next) {
    if (t < count) to[t * step + i] = x;
    if (t + 1 < count) to[(t + 1) * step + i] = next;
  });
}

template <class Real, int columns>
struct TileResults : TileProducts<Real, columns> {
  using Base = TileProducts<Real, columns>;
  using Base::Base, Base::memory, Base::pass, Base::origin, Base::step, Base::count, Base::lane,
      Base::reader, Base::own, Base::column;
  using typename Base::ChannelSums, typename Base::Products;

  __device__ float2 decay_at(int t, int i) const {
    return t < 0 ? make_float2(1, 1) : *reinterpret_cast<const float2*>(memory.decays.at(t, i));
  }
  // Of the tokens lane / 4 and lane / 4 + 8, and of two channels of each piece.
  using TwoDecays = float2[2][2];
  __device__ void read_decays(int later, TwoDecays& decays) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
        decays[half][p] = decay_at(lane / 4 + 8 * half + later, column + 8 * p + lane % 4 * 2);
  }
  // Stores the gradient of a vector, given that of the vector with the decay taken out.
  __device__ void store(Real* to, const Accumulator& sums, const TwoDecays& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = lane / 4 + 8 * half;
      float2 x[2];
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float2 f = factor[half][p];
        x[p] = {sums.c[p][2 * half] * f.x, sums.c[p][2 * half + 1] * f.y};
      }
      store_row(to + origin + t * step + column, x[0], x[1], t < count);
    }
  }
  __device__ void store_dv(const Products& dv) const {
    store_transposed(pass.gradient.dv + origin + column, step, count, dv.total());
  }
  // The two warps of the same key channels.
  __device__ void sync_pair() const {
    static_assert(warps / 2 == 4);
    if (own == 0) named_barrier<1, 64>();
    if (own == 1) named_barrier<2, 64>();
    if (own == 2) named_barrier<3, 64>();
    if (own == 3) named_barrier<4, 64>();
  }
  __device__ static float4 four(const float (&x)[4]) { return {x[0], x[1], x[2], x[3]}; }

  // Stores both gradients. terms[0] and [1]: what a~ and r~ contribute to dlog w, or [1]: what b~
  // and k~ do. inverse_w: of the channels whose dlog w this warp adds up.
  __device__ void finish_vectors(const Accumulator (&gradients)[2], const Accumulator (&vectors)[2],
                                 const ChannelSums& state_sums, Accumulator (&terms)[2],
                                 float2 (&inverse_w)[2]) const {
    TwoDecays here, before;
    read_decays(0, here);
    if (reader) {
      read_decays(-1, before);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        inverse_w[half] = {__fdividef(before[half][0].x, here[half][0].x),
                           __fdividef(before[half][0].y, here[half][0].y)};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float2& x = here[i / 2][i % 2];
        before[i / 2][i % 2] = x = {reciprocal(x.x), reciprocal(x.y)};
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 earlier = decay_at(lane / 4 + 8 * half - 1, column + 8 + lane % 4 * 2);
        inverse_w[half] = {earlier.x * here[half][1].x, earlier.y * here[half][1].y};
      }
    }
    store(reader ? pass.gradient.da : pass.gradient.db, gradients[0], before);
    store(reader ? pass.gradient.dr : pass.gradient.dk, gradients[1], here);
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = gradients[0].c[p][i] * vectors[0].c[p][i];
        const float y = gradients[1].c[p][i] * vectors[1].c[p][i];
        // What is common to all tokens is added to the last one's.
        const float all = i >= 2 && lane / 4 == 7 ? state_sums[p][i % 2] : 0.0f;
        terms[0].c[p][i] = x, terms[1].c[p][i] = reader ? y : x + y - all;
      }
  }
  __device__ void finish_log_decay(const Accumulator (&terms)[2], const float2 (&inverse_w)[2]) {
    LogDecayExchange& exchange = memory.log_w[own];
    float4 a = four(terms[0].c[0]), r = four(terms[1].c[0]), writes = four(terms[1].c[1]);
    if (reader)
      exchange.of_a[lane] = four(terms[0].c[1]), exchange.of_r[lane] = four(terms[1].c[1]);
    else
      exchange.of_writes[lane] = four(terms[1].c[0]);
    sync_pair();
    if (reader)
      writes = exchange.of_writes[lane];
    else
      a = exchange.of_a[lane], r = exchange.of_r[lane];
    store_log_decay(column + (reader ? 0 : 8) + lane % 4 * 2, {a.x, a.y, a.z, a.w},
                    {r.x - writes.x, r.y - writes.y, r.z - writes.z, r.w - writes.w}, inverse_w);
  }

  // Of two channels; here: what a token contributes but for its a~.
  __device__ void store_log_decay(int first, const float (&a)[4], const float (&here)[4],
                                  const float2 (&inverse_w)[2]) const {
    float later[4];  // this token and those after it
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      float sum = a[i] + here[i];
#pragma unroll
      for (int away = 4; away < 32; away *= 2) {
        const float after = __shfl_down_sync(~0u, sum, away);
        if (lane + away < 32) sum += after;
      }
      if (i < 2) sum += __shfl_sync(~0u, later[i + 2], lane % 4);
      later[i] = sum;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 2 * half, t = lane / 4 + 8 * half;
      if (t < count)
        __stcs(reinterpret_cast<float2*>(pass.gradient.dw + origin + first + t * step),
               make_float2((later[i] - a[i]) * inverse_w[half].x,
                           (later[i + 1] - a[i + 1]) * inverse_w[half].y));
    }
  }
};

}  // namespace
}  // namespace deltasane::kernel::cuda
