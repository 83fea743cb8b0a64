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

// Rows of a warp in shared memory, copied by the warp itself while it does the tile before.
template <int keys>
struct SavedRows {
  static constexpr int count = row_group * keys;
  alignas(16) __nv_bfloat16 plane[2][count];
  Mbarrier full;

  __device__ void init() {  // by one thread, before a barrier of the block
    NV_IF_TARGET(NV_PROVIDES_SM_90, (mbarrier_init(full, 2); fence_mbarrier_init();))
  }
  // From entry `from` of all saved states on. After all lanes have read the rows before.
  __device__ void copy(const GatedPass& pass, int64_t from) {
    __syncwarp();
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (if (threadIdx.x % 32 == 0) {
                        bulk_copy_async(plane[0], pass.state_upper + from, sizeof(plane[0]), full);
                        bulk_copy_async(plane[1], pass.state_lower + from, sizeof(plane[1]), full);
                      }),
                      (copy_pieces(0, pass.state_upper + from);
                       copy_pieces(1, pass.state_lower + from); commit_group();))
  }
  __device__ void copy_pieces(int p, const bf16* from) {
    for (int i = threadIdx.x % 32; i < count / 8; i += 32)
      copy_async(reinterpret_cast<uint4*>(plane[p]) + i, reinterpret_cast<const uint4*>(from) + i);
  }
  __device__ void wait(uint32_t parity) const {  // for the copies, of which every second has 1
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (mbarrier_wait(full, parity);),
                      (wait_group<0>(); __syncwarp();))
  }
  __device__ void load(uint32_t (&x)[4], int p, int n) const {  // of part n
    const int lane = threadIdx.x % 32, piece = lane / 8;
    const int block = piece % 2 * (keys / 8) + 2 * n + piece / 2;
    ldmatrix(x, shared_address(plane[p] + block * 64 + lane % 8 * 8));
  }
};

}  // namespace deltasane::kernel::cuda
