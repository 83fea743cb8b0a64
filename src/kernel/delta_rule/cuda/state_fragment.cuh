// Rows of a state, or of its gradient, in the registers of a warp.
#pragma once

#include "kernel/cuda/approximate_math.cuh"
#include "kernel/delta_rule/cuda/operands.cuh"
#include "kernel/delta_rule/cuda/saved_state.cuh"

namespace deltasane::kernel::cuda {

// 16 rows and 32 columns, or all 64, in the lanes of a warp: piece n has the columns 8 n to 8 n + 7
// of them, each as in an Accumulator. groups: of 16 rows, in a block.
template <int columns, int groups = head_size / warp_rows>
struct StateFragment {
  static constexpr int pieces = columns / 8, sharers = head_size / columns;
  float x[pieces][4];

  // Which of the columns: of the warps on one scheduler, every fourth of a block, one has the left
  // half and the next one the right half, which has more to do.
  __device__ static int half() { return (threadIdx.x / 32 + threadIdx.x / 128) % sharers; }
  __device__ static int first_row() {
    const int first_group = groups < head_size / warp_rows ? blockIdx.y * groups : 0;
    return (first_group + threadIdx.x / 32 / sharers % groups) * warp_rows;
  }
  __device__ static int first_column() { return half() * columns; }
  __device__ static const float2* address(const float* state) {
    const int lane = threadIdx.x % 32;
    return reinterpret_cast<const float2*>(state + (first_row() + lane / 4) * head_size +
                                           first_column() + lane % 4 * 2);
  }
  __device__ void load(const float* state) {
    const float2* const at = address(state);
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      const float2 upper = __ldg(at + 4 * n), lower = __ldg(at + 4 * n + 8 * head_size / 2);
      x[n][0] = upper.x, x[n][1] = upper.y, x[n][2] = lower.x, x[n][3] = lower.y;
    }
  }
  __device__ void store(float* state) const {
    float2* const at = const_cast<float2*>(address(state));
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      at[4 * n] = {x[n][0], x[n][1]};
      at[4 * n + 8 * head_size / 2] = {x[n][2], x[n][3]};
    }
  }
  // Likewise in a saved state: the address of this lane's numbers of the first piece.
  __device__ static float4* address(SavedState& state) {
    return &state.of[first_row() / 16][first_column() / 8][threadIdx.x % 32];
  }
  __device__ void load(const SavedState& state) {
    const float4* const at = address(const_cast<SavedState&>(state));
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      const float4 four = __ldg(at + 32 * n);
      x[n][0] = four.x, x[n][1] = four.y, x[n][2] = four.z, x[n][3] = four.w;
    }
  }
  __device__ void store(float4* state) const {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
      state[32 * n] = make_float4(x[n][0], x[n][1], x[n][2], x[n][3]);
  }
  __device__ void clear() {
    each([](float& entry) { entry = 0; });
  }
  template <class Map>  // map(entry)
  __device__ void each(Map&& map) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(x[n][i]);
  }
  template <class Map>  // map(entry) -> entry
  __device__ void set(const StateFragment& from, Map&& map) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n][i] = map(from.x[n][i]);
  }
  __device__ void copy(int n, const StateFragment& from) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] = from.x[n][i];
  }
  __device__ void set_scaled(const StateFragment& from, float factor) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) optimization_barrier(x[n][i] = from.x[n][i] * factor);
  }
  __device__ void shift_down(int count) {  // pieces, to lower numbers
#pragma unroll
    for (int n = 0; n + count < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n][i] = x[n + count][i];
  }
  __device__ static float2 of_columns(int n, const float* all) {
    return *reinterpret_cast<const float2*>(all + first_column() + 8 * n + threadIdx.x % 4 * 2);
  }
  __device__ void scale(int n, const float* factors) {  // of all columns
    const float2 f = of_columns(n, factors);
    x[n][0] *= f.x, x[n][1] *= f.y, x[n][2] *= f.x, x[n][3] *= f.y;
  }
  __device__ void scale(int n, const float4& factors) {  // of the four entries
    x[n][0] *= factors.x, x[n][1] *= factors.y, x[n][2] *= factors.z, x[n][3] *= factors.w;
  }
  __device__ void add(int n, const Accumulator& sums) {  // to two pieces
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n + p][i] += sums.c[p][i];
  }
};

using HalfRows = StateFragment<half_columns>;

// Partial sums that the two warps of the same rows exchange: each those of the other, or one of
// them those of the other one only.
enum class Givers { both, one };
template <Givers givers>
struct Exchange {
  float4 sums[givers == Givers::both ? consumer_warps : consumer_warps / 2][2][32];

  // Of this warp, or of the other one of the two.
  __device__ static int place(bool other) {
    const int warp = threadIdx.x / 32;
    return givers == Givers::one ? warp / 2 : warp ^ int(other);
  }
  __device__ void store(int piece, const float (&x)[4]) {
    sums[place(false)][piece][threadIdx.x % 32] = make_float4(x[0], x[1], x[2], x[3]);
  }
  __device__ void add_other(int piece, float (&x)[4]) const {
    const float4 other = sums[place(true)][piece][threadIdx.x % 32];
    x[0] += other.x, x[1] += other.y, x[2] += other.z, x[3] += other.w;
  }
  __device__ void store(const Accumulator& x) { store(0, x.c[0]), store(1, x.c[1]); }
  __device__ void add_other(Accumulator& x) const { add_other(0, x.c[0]), add_other(1, x.c[1]); }
};
// Of the two warps.
__device__ inline void sync_exchange() { named_barrier<64>(2 + threadIdx.x / 64); }

}  // namespace deltasane::kernel::cuda
