// The threads that have one head of a row: a warp, or a block where heads are long. For .cu files.
#pragma once

#include "kernel/cuda/channel_width.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int block_warps = channel_threads / 32;
inline constexpr int64_t long_head = 1025;  // channels from which a block has a head, and not a warp

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
  // use(piece, channel): of `pieces` pieces that hold the head, each with a register array's number;
  // where there are none of these, piece is 0.
  template <int width, int pieces, class Use>
  __device__ void each_piece(int64_t size, Use&& use) const {
    if constexpr (pieces == 0) {
      each<width>(size, [&](int64_t c) { use(0, c); });
    } else {
#pragma unroll
      for (int piece = 0; piece < pieces; ++piece)
        if (const int64_t c = int64_t(piece * 32 * warps + lane) * width; c < size) use(piece, c);
    }
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
};

// A thread's channels of a head at `from`, in registers; with no pieces they are loaded when they are
// read, each time.
template <int width, int pieces, class Real>
struct HeadChannels {
  static_assert(pieces == 0 || width == octet);
  const Real* from;
  Packed<Real> held[pieces == 0 ? 1 : pieces];

  template <int warps>
  __device__ HeadChannels(const HeadThreads<warps>& threads, const Real* at, int64_t size)
      : from(at) {
    if constexpr (pieces > 0)
      threads.template each_piece<width, pieces>(
          size, [&](int piece, int64_t c) { held[piece] = Packed<Real>(from + c); });
  }
  __device__ void get(int piece, int64_t c, float (&x)[width]) const {
    if constexpr (pieces > 0)
      held[piece].unpack(x);
    else
      load_channels<width>(from + c, x);
  }
};

template <int warps>
unsigned blocks_of_heads(int64_t heads) {
  constexpr int64_t groups = HeadThreads<warps>::groups;
  return unsigned((heads + groups - 1) / groups);
}

// Calls body.operator()<width, warps, pieces>() for heads of so many channels.
template <class Body>
void with_head_threads(bool eight, int64_t size, const Body& body) {
  const auto in_pieces = [&] {
    constexpr int64_t piece = 32 * octet;
    if (size <= piece) return body.template operator()<octet, 1, 1>();
    if (size <= 2 * piece) return body.template operator()<octet, 1, 2>();
    body.template operator()<octet, 1, 4>();
  };
  static_assert(long_head <= 4 * 32 * octet + 1);
  if (size < long_head) return eight ? in_pieces() : body.template operator()<1, 1, 0>();
  with_width(eight, [&]<int width>() { body.template operator()<width, block_warps, 0>(); });
}

}  // namespace deltasane::kernel::cuda
