// The threads that have one head of a row: a warp, or a block where heads are long. For .cu files.
#pragma once

#include "kernel/cuda/channel_width.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int block_warps = channel_threads / 32;
inline constexpr int64_t long_head = 512;  // channels from which a block has a head, and not a warp

template <int warps>
struct HeadThreads {
  static constexpr int groups = block_warps / warps;  // heads of a block at a time
  int group, lane;
  int64_t head;  // of all, where every block has `groups` of them
  __device__ HeadThreads()
      : group(int(threadIdx.x) / (32 * warps)),
        lane(int(threadIdx.x) % (32 * warps)),
        head(int64_t(blockIdx.x) * groups + group) {}
  template <int width, class Use>
  __device__ void each(int64_t size, Use&& use) const {
    for (int64_t c = int64_t(lane) * width; c < size; c += 32 * warps * width) use(c);
  }
  // Over the head's threads; each gets the sums. `of_block` is used where they are a block.
  template <int values>
  __device__ void sum(float (&x)[values], BlockSums<values>& of_block) const {
    if constexpr (warps == 1) {
#pragma unroll
      for (int i = 0; i < values; ++i) x[i] = warp_sum(x[i]);
    } else {
      of_block(x);
    }
  }
  template <int width, class Real>
  __device__ float sum_of_squares(const Real* x, int64_t size) const {
    __shared__ float place[2][32];
    BlockSums<1> sums{place};
    float squares[1] = {};
    each<width>(size, [&](int64_t c) {
      float some[width];
      load_channels<width>(x + c, some);
#pragma unroll
      for (int i = 0; i < width; ++i) squares[0] = fmaf(some[i], some[i], squares[0]);
    });
    sum(squares, sums);
    return squares[0];
  }
};

}  // namespace deltasane::kernel::cuda
