// The weights of a warp's rows on their way through shared memory (cp.async), pieces of a row at a time,
// in the order in which they are multiplied. A thread reads what it has copied itself, so that no warp
// waits for another; and copies need none of a product's inputs, so that they begin before those are
// there. For .cu files.
#pragma once

#include <algorithm>

#include "kernel/cuda/async_copy.cuh"
#include "kernel/matmul/few_rows/few_rows.cuh"

namespace deltasane::kernel::cuda {

template <class Weight>
class WeightRing {
 public:
  static constexpr int loads = 4;  // of 16 bytes, of a thread, for a piece
  static constexpr int load_columns = 32 * weights_per_load<Weight>;
  static constexpr int piece_columns = loads * load_columns;
  // Pieces of a warp in shared memory at most: with eight warps 96 KiB, so that the blocks of two kernels fit a
  // multiprocessor.
  static constexpr int depth = 6;
  // Pieces after those that are prefetched into L2 at first.
  static constexpr int prefetched = 8;

  __host__ __device__ static int64_t pieces_of(int64_t columns) {
    return (columns + piece_columns - 1) / piece_columns;
  }
  static constexpr int piece_step = loads * few_threads;  // from place to place
  // Of a block.
  static size_t bytes(int places) { return size_t(places) * piece_step * sizeof(uint4); }
  // Of a warp that has so many pieces, where the block has `room` bytes: at least one.
  static int places(int64_t pieces, uint64_t room) {
    const auto fitting = int64_t(room / bytes(1));
    return int(std::max<int64_t>(1, std::min({pieces, fitting, int64_t(depth)})));
  }

  // Of the warps' rows in the first `blocks` blocks: every one in blocks * few_warps of them.
  __device__ WeightRing(const FewRowsMatrix<Weight>& m, int64_t blocks, int places, uint4* memory)
      : m_(m),
        step_(int(blocks) * few_warps),
        places_(places),
        first_(memory + threadIdx.x),
        end_(first_ + places * piece_step),
        oldest_(first_),
        newest_(first_),
        next_{(int(blockIdx.x) * few_threads + int(threadIdx.x)) / 32, 0},
        policy_(evict_first_policy()) {
#pragma unroll 1
    for (int i = 0; i < places; ++i) copy_next();
    prefetch();
  }

  // use(number of the load, weights), for the loads of the oldest piece, whose place takes the next.
  template <class Use>
  __device__ void take(Use&& use) {
    wait_for_oldest();
    uint4 raw[loads];
#pragma unroll
    for (int u = 0; u < loads; ++u) raw[u] = oldest_[u * few_threads];
    if ((oldest_ += piece_step) == end_) oldest_ = first_;
    copy_next();
#pragma unroll
    for (int u = 0; u < loads; ++u) use(u, raw[u]);
  }

 private:
  struct Piece {
    int row, from;
  };
  __device__ void advance(Piece& piece) const {
    if ((piece.from += piece_columns) >= m_.columns) piece.from = 0, piece.row += step_;
  }
  __device__ bool exists(const Piece& piece) const { return piece.row < m_.rows; }
  __device__ const Weight* row_of(const Piece& piece) const {
    return m_.data + piece.row * m_.columns;
  }

  // As many copies are behind it as there are other places; which number, the instruction has to know.
  __device__ void wait_for_oldest() const {
    if (places_ == depth)
      wait_group<depth - 1>();
    else if (places_ > 1)
      wait_group<1>();
    else
      wait_group<0>();
  }
  // Also where nothing is left: groups of copies are counted.
  __device__ void copy_next() {
    if (exists(next_)) {
      const Weight* const weights = row_of(next_);
      const int mine = next_.from + int(threadIdx.x) % 32 * weights_per_load<Weight>;
#pragma unroll
      for (int u = 0; u < loads; ++u) {
        const int c = mine + u * load_columns;
        copy_async(newest_ + u * few_threads, weights + (c < m_.columns ? c : 0), c < m_.columns,
                   policy_);
      }
      if ((newest_ += piece_step) == end_) newest_ = first_;
      advance(next_);
    }
    commit_group();
  }
  __device__ void prefetch() const {
    constexpr int line = 128 / int(sizeof(Weight));  // columns
    Piece piece = next_;
#pragma unroll 1
    for (int i = 0; i < prefetched && exists(piece); ++i, advance(piece)) {
      const int c = int(threadIdx.x) % 32 * line;
      if (c < piece_columns && piece.from + c < m_.columns)
        prefetch_l2_line(row_of(piece) + piece.from + c);
    }
  }

  const FewRowsMatrix<Weight>& m_;
  int step_, places_;
  uint4 *first_, *end_, *oldest_, *newest_;  // this thread's parts of pieces
  Piece next_;                               // to be copied
  uint64_t policy_;
};

}  // namespace deltasane::kernel::cuda
