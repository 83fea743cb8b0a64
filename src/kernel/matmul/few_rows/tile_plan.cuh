// How the blocks of a product of few rows divide a matrix: tiles of eight rows, a block every
// blocks-th of them. A warp has every eighth piece of a tile's columns. Tiles whose sums are added up
// together are a batch, and the columns whose inputs fit into shared memory a window. With two halves of
// rows, of which each result needs both, a tile of one and that of the other follow each other. For .cu
// files.
#pragma once

#include <cstdint>

#include "kernel/matmul/few_rows/few_rows.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int tile_rows = 8;            // a lane has row lane / 4
inline constexpr int piece_loads = 4;          // of 16 bytes, of a lane
inline constexpr int staged_bytes = 48 << 10;  // of inputs in shared memory at most

// Of four lanes, which have a row.
template <class Weight>
inline constexpr int load_columns = 4 * weights_per_load<Weight>;
template <class Weight>
inline constexpr int piece_columns = piece_loads * load_columns<Weight>;
// Of all warps, once.
template <class Weight>
inline constexpr int chunk_columns = few_warps * piece_columns<Weight>;

// The load that a lane does as number u. Lanes with an odd row exchange the two loads of each pair: rows are often a
// multiple of 128 bytes apart, and the eight lanes that shared memory serves at once have two of them.
__device__ inline int exchanged(int u) {
  static_assert(piece_loads % 2 == 0);
  return u ^ int(threadIdx.x) / 4 % 2;
}

template <class Weight>
struct TilePlan {
  const Weight* data = nullptr;
  int rows = 0, columns = 0;  // rows: of a half
  int halves = 1;
  int blocks = 0;
  int least_tiles = 0, more = 0;  // of a block, of a half; the first `more` blocks have one more
  int batch = 0;                  // tiles of a block, of a half
  int window = 0;  // columns, a multiple of a chunk's where there are several windows

  __device__ int tiles() const { return least_tiles + (int(blockIdx.x) < more); }
  __host__ __device__ int window_end(int first) const {
    return first + window < columns ? first + window : columns;
  }
};

}  // namespace deltasane::kernel::cuda
