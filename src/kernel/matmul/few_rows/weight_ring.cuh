// The weights of a warp's pieces on their way through shared memory (cp.async), in the order in which
// they are multiplied. A lane reads what it has copied itself, so that no warp waits for another; and
// copies need none of a product's inputs, so that they begin before those are there. For .cu files.
#pragma once

#include <algorithm>

#include "kernel/cuda/async_copy.cuh"
#include "kernel/matmul/few_rows/few_rows.cuh"
#include "kernel/matmul/few_rows/tile_plan.cuh"

namespace deltasane::kernel::cuda {

template <class Weight>
class WeightRing {
 public:
  // Pieces of a warp in shared memory at most: with eight warps 96 KiB, so that the blocks of two kernels
  // fit a multiprocessor.
  static constexpr int depth = 6;
  // Pieces after those that are prefetched into L2 at first.
  static constexpr int prefetched = 8;
  static constexpr int place_step = piece_loads * few_threads;  // from place to place
  // From a warp's piece to its next one.
  static constexpr int column_step = few_warps * piece_columns<Weight>;

  // Of a block.
  static size_t bytes(int places) { return size_t(places) * place_step * sizeof(uint4); }
  // Of a warp that has so many pieces, where the block has `room` bytes: at least one.
  static int places(int64_t pieces, uint64_t room) {
    const auto fitting = int64_t(room / bytes(1));
    return int(std::max<int64_t>(1, std::min({pieces, fitting, int64_t(depth)})));
  }

  __device__ WeightRing(const TilePlan<Weight>& plan, int places, uint4* memory)
      : plan_(plan),
        places_(places),
        own_column_(int(threadIdx.x) / 32 * piece_columns<Weight>),
        first_(memory + threadIdx.x),
        end_(first_ + places * place_step),
        oldest_(first_),
        newest_(first_),
        next_{int(blockIdx.x), int(blockIdx.x), 0, 0, own_column_},
        policy_(evict_first_policy()) {
    if (own_column_ >= plan.columns) next_.batch = plan.tiles;
    find_present(next_);
#pragma unroll 1
    for (int i = 0; i < depth; ++i)
      if (i < places)
        copy_next();
      else
        commit_group();
    counts_all_ = places == depth || !exists(next_);
    prefetch();
  }

  // The warp's first column in a window.
  __device__ int first_column(int window) const { return window + own_column_; }

  // How many pieces it has of a tile, in a window.
  __device__ int pieces(int window) const {
    const int columns = plan_.window_end(window) - first_column(window);
    return columns > 0 ? (columns + column_step - 1) / column_step : 0;
  }

  // use(number of the load, weights), for the loads of the oldest piece, whose place takes the next.
  template <class Use>
  __device__ void take(Use&& use) {
    wait_for_oldest();
    uint4 raw[piece_loads];
#pragma unroll
    for (int u = 0; u < piece_loads; ++u) raw[u] = oldest_[u * few_threads];
#pragma unroll
    for (int u = 0; u < piece_loads; ++u) use(u, raw[u]);
    if ((oldest_ += place_step) == end_) oldest_ = first_;
    copy_next();
  }

 private:
  struct Piece {
    int batch, tile, half;  // batch: its first tile
    int window, from;       // columns
  };
  __device__ bool exists(const Piece& piece) const { return piece.batch < plan_.tiles; }
  __device__ void advance(Piece& piece) const {
    piece.from += column_step;
    find_present(piece);
  }
  // Of a window the warp may have no columns.
  __device__ void find_present(Piece& piece) const {
    while (exists(piece) && piece.from >= plan_.window_end(piece.window)) {
      const int after = piece.batch + plan_.batch * plan_.blocks;
      if (++piece.half == plan_.halves) piece.half = 0, piece.tile += plan_.blocks;
      if (piece.tile >= min(after, plan_.tiles)) {
        piece.tile = piece.batch, piece.window += plan_.window;
        if (piece.window >= plan_.columns) piece.tile = piece.batch = after, piece.window = 0;
      }
      piece.from = first_column(piece.window);
    }
  }
  // In its half.
  __device__ const Weight* weights_at(const Piece& piece, int row, int column) const {
    return plan_.data + (int64_t(piece.half) * plan_.rows + row) * plan_.columns + column;
  }

  // A constant number of groups of copies is behind it, where all of a warp's pieces have places, or there are
  // `depth` of them; else more are waited for.
  __device__ void wait_for_oldest() const {
    if (counts_all_)
      wait_group<depth - 1>();
    else if (places_ > 1)
      wait_group<1>();
    else
      wait_group<0>();
  }
  // Also where nothing is left: groups of copies are counted.
  __device__ void copy_next() {
    if (exists(next_)) {
      const int lane = int(threadIdx.x) % 32, row = next_.tile * tile_rows + lane / 4;
      const int column = next_.from + lane % 4 * weights_per_load<Weight>;
      const Weight* const weights = weights_at(next_, row, column);
#pragma unroll
      for (int u = 0; u < piece_loads; ++u) {
        const int skipped = u * load_columns<Weight>;
        const bool present = row < plan_.rows && column + skipped < plan_.columns;
        copy_async(newest_ + u * few_threads, present ? weights + skipped : plan_.data, present,
                   policy_);
      }
      if ((newest_ += place_step) == end_) newest_ = first_;
      advance(next_);
    }
    commit_group();
  }
  __device__ void prefetch() const {
    constexpr int line = 128 / int(sizeof(Weight)), lines = piece_columns<Weight> / line;
    const int lane = int(threadIdx.x) % 32;
    Piece piece = next_;
#pragma unroll 1
    for (int i = 0; i < prefetched && exists(piece); ++i, advance(piece)) {
      const int row = piece.tile * tile_rows + lane / lines, column = piece.from + lane % lines * line;
      if (lane < tile_rows * lines && row < plan_.rows && column < plan_.columns)
        prefetch_l2_line(weights_at(piece, row, column));
    }
  }

  const TilePlan<Weight>& plan_;
  int places_, own_column_;
  uint4 *first_, *end_, *oldest_, *newest_;  // this lane's parts of pieces
  Piece next_;                               // to be copied
  bool counts_all_ = false;
  uint64_t policy_;
};

}  // namespace deltasane::kernel::cuda
