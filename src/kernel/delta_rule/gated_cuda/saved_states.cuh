// SANE backward: states after SANE, which forward saved as two planes, and what the gradient of one
// is multiplied with (neutralize_derivatives.cuh).
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/cuda/neutralize_derivatives.cuh"
#include "kernel/delta_rule/gated_cuda/blocked_matrix.cuh"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"

namespace deltasane::kernel::cuda {

// Derivatives for one tau; entries are not divided by it, the polynomials are.
struct TauOfTile {
  float tau, inverse, unit;               // 1 / tau; 1 / tau^2
  __device__ explicit TauOfTile(float t)  // 0: no SANE, and derivatives 1 and 0
      : tau(t), inverse(t > 0 ? reciprocal(t) : 0.0f), unit(inverse * inverse) {}
  // Of the bf16 numbers nearest to entries, which suffice up to a 256th.
  __device__ float tiny_bound() const { return tau * (0.3f / (1 + 0x1p-8f)); }  // tanh(tiny_limit)
  __device__ float moderate_bound() const { return tau * (moderate_limit / (1 + 0x1p-8f)); }
  __device__ float of_sum(float x) const { return x * (unit * inverse); }
  // P(q) of a square.
  __device__ float tiny(float square) const { return tau_derivative_tiny(square, unit); }
  __device__ float moderate(float square) const { return tau_derivative_moderate(square * unit); }
  __device__ float any(float square) const { return tau_derivative_any(square * unit); }
};

// Of bf16 numbers, two in a word: magnitudes are ordered as their bits are.
struct LargestMagnitude {
  uint32_t most = 0;  // of the lower halves, and of the upper ones
  __device__ void add(const uint32_t (&words)[4]) {
    constexpr uint32_t magnitudes = 0x7fff7fff;
    most = __vimax3_u16x2(most, words[0] & magnitudes, words[1] & magnitudes);
    most = __vimax3_u16x2(most, words[2] & magnitudes, words[3] & magnitudes);
  }
  __device__ bool all_below(float bound) const {  // of the warp
    const uint32_t bits = max(most & 0xffffu, most >> 16);
    return __all_sync(~0u, __uint_as_float(bits << 16) < bound);
  }
};

// 16 x 16 entries.
struct SavedPart {
  uint32_t upper[4], lower[4];
  template <class Use>  // use(piece, entry, number), as in an Accumulator
  __device__ void each(Use&& use) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t x = upper[i], y = lower[i];
      use(i / 2, i % 2 * 2, __uint_as_float(x << 16) + __uint_as_float(y << 16));
      use(i / 2, i % 2 * 2 + 1,
          __uint_as_float(x & 0xffff0000u) + __uint_as_float(y & 0xffff0000u));
    }
  }
};

// 16 rows in shared memory, as blocks of 8 x 8.
template <int columns>
struct SavedTile {
  static constexpr int half = row_group / 2 * columns;  // contiguous
  alignas(16) __nv_bfloat16 plane[2][2 * half];
  __device__ void load(uint32_t (&x)[4], int p, int column) const {
    const int lane = threadIdx.x % 32, piece = lane / 8;
    const int block = piece % 2 * (columns / 8) + column / 8 + piece / 2;
    ldmatrix(x, shared_address(plane[p] + block * 64 + lane % 8 * 8));
  }
  __device__ SavedPart part(int column) const {  // 16 columns from this one on
    SavedPart x;
    load(x.upper, 0, column), load(x.lower, 1, column);
    return x;
  }
};

// Of a warp: copied by the warp itself while it does the `turns` tiles before. Whole rows are
// contiguous: bulk copies, where there are some.
template <int keys, int columns, int turns>
struct SavedRows : SavedTile<columns> {
  using SavedTile<columns>::half;
  using SavedTile<columns>::plane;
  static constexpr bool whole_rows = columns == keys;
  static_assert(!whole_rows || turns == 1);
  Mbarrier full;

  __device__ void init() {  // by one thread, before a barrier of the block
    if constexpr (whole_rows) {
      NV_IF_TARGET(NV_PROVIDES_SM_90, (mbarrier_init(full, 4); fence_mbarrier_init();))
    }
  }
  // From entry `from` of all saved states on. After all lanes have read the rows before.
  __device__ void copy(const GatedPass& pass, int64_t from) {
    __syncwarp();
    if constexpr (whole_rows) {
      NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (copy_bulk(pass, from);), (copy_pieces(pass, from);))
    } else {
      copy_pieces(pass, from);
    }
  }
  // i: of plane i / 2 the i % 2-th half.
  __device__ static const bf16* half_of(const GatedPass& pass, int64_t from, int i) {
    return (i / 2 == 0 ? pass.state_upper : pass.state_lower) + from +
           i % 2 * (row_group / 2 * keys);
  }
  __device__ void copy_bulk(const GatedPass& pass, int64_t from) {
    const int i = threadIdx.x % 32;
    if (i < 4)
      bulk_copy_async(plane[i / 2] + i % 2 * half, half_of(pass, from, i), half * sizeof(bf16),
                      full);
  }
  __device__ void copy_pieces(const GatedPass& pass, int64_t from) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      copy_contiguous<32, half / 8>(plane[i / 2] + i % 2 * half, half_of(pass, from, i));
    commit_group();
  }
  __device__ void wait(uint32_t parity) const {  // for the oldest copy; every second has parity 1
    if constexpr (whole_rows) {
      NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (mbarrier_wait(full, parity);), (wait_pieces();))
    } else {
      wait_pieces();
    }
  }
  __device__ static void wait_pieces() {
    wait_group<turns - 1>();
    __syncwarp();
  }
};

}  // namespace deltasane::kernel::cuda
