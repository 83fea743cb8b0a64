// The weights of all matrix products of a token as one stream: each thread keeps copies of its next
// tiles in flight into a ring in shared memory (cp.async), across the ends of products and layers,
// so that the stream does not stop where a product waits for the one before. For token.cu.
//
// A block has a range of every matrix's rows, and finishes the sums of up to 32 of them together (a
// run), whatever input they are multiplied with. A warp has some columns of all of them: every
// sixteenth unit of 128 bytes. A tile is a unit of eight rows in two loads, of 64 bytes a row each
// (see weight_tile.cuh). So all warps have the same work however few rows there are. Loops are not
// unrolled where they need not be: a token runs through all of this code once a layer, and it has
// to stay in the instruction cache.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "model/rwkv7/decode/input_rows.cuh"
#include "model/rwkv7/decode/one/weight_tile.cuh"

namespace deltasane::rwkv7::one {

inline constexpr int token_threads = 512, token_warps = token_threads / 32;
inline constexpr int tile_bytes = tile_loads * 16 * token_threads;  // of a block
inline constexpr int run_rows = 32;

template <class Weight>
inline constexpr int unit_columns = tile_loads* load_columns<Weight>;
template <class Weight>
__host__ __device__ constexpr int padded_columns(int64_t columns) {
  constexpr int unit = unit_columns<Weight>;
  return int((columns + unit - 1) / unit) * unit;
}

enum Matrix { matrix_in, matrix_output, matrix_key, matrix_value, matrices };

// A block's part of a product. They follow each other: four of each layer, then the head.
template <class Weight>
struct TokenProduct {
  const Weight* matrix;
  int segments;  // index of the InputRows whose segments read different inputs; -1: one input
  RowRange rows;
  int columns;

  // Where the block's rows with the same input as this one end.
  __device__ int input_end(int row, const InputRows* in) const {
    if (segments < 0) return rows.end;
    return min(rows.end, in[segments].end[in[segments].segment_of(row)]);
  }
};

// The warps' partial sums of a run, double-buffered: one is reduced while the next one is written.
// In shared memory.
struct RunSums {
  static_assert(run_rows == 32 && token_warps == 16);
  // Padded by four: 16-byte loads of neighbouring rows hit every bank once.
  struct alignas(16) Row {
    float of_warp[token_warps + 4];
  } rows[2][run_rows];

  __device__ float sum(int turn, int row) const {
    const auto* const four = reinterpret_cast<const float4*>(rows[turn][row].of_warp);
    const float4 a = four[0], b = four[1], c = four[2], d = four[3];
    return (((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w))) +
           (((c.x + c.y) + (c.z + c.w)) + ((d.x + d.y) + (d.z + d.w)));
  }
};

template <class Weight, int depth>
class WeightStream {
 public:
  // All in shared memory; `ring`: depth tiles of the block.
  __device__ WeightStream(const TokenProduct<Weight>* products, int count, const InputRows* in,
                          RunSums& sums, uint4* ring)
      : products_(products),
        count_(count),
        in_(in),
        sums_(sums),
        ring_(ring),
        place_(int(threadIdx.x)),
        policy_(evict_first_policy()) {
    begin_rows();
#pragma unroll 1
    for (int i = 0; i < depth; ++i) copy_next();
  }

  // The product with this number: finish(row, sum) by one thread for each row of the block.
  // inputs + input_of(row) is what the row is multiplied with, in shared memory as TileInput stores
  // it, zero up to padded_columns. Called for all numbers in order, by all threads; all reads of
  // inputs are done when it returns.
  template <class InputOf, class Finish>
  __device__ void multiply(int number, const float* inputs, InputOf input_of, Finish finish) {
    const TokenProduct<Weight>& product = products_[number];
    const int rows_end = product.rows.end, columns = product.columns;
    TileInput<Weight> own;
    int run = product.rows.begin;  // the first row of the run
#pragma unroll 1
    for (int row = run; row < rows_end;) {
      const int end = product.input_end(row, in_);
      const float* const input = inputs + input_of(row);
#pragma unroll 1
      while (row < end) {
        TileSums<Weight> sums;
#pragma unroll 1
        for (int first = first_column(); first < columns; first += all_columns)
          add_tile(input + first, own, sums);
        // Sums beyond the end belong to no row, and are overwritten by the next tile's.
        RunSums::Row* const rows = sums_.rows[turn_] + (row - run);
        sums.write(lane(), [&](int r, float sum) { rows[r].of_warp[warp()] = sum; });
        __syncwarp();
        row = min(row + tile_rows, end);
        if (row < rows_end && row - run + tile_rows <= run_rows) continue;
        __syncthreads();
        // One warp finishes the sums: neighbours are stored together.
        if (const int mine = run + lane(); warp() == 0 && mine < row)
          finish(mine, sums_.sum(turn_, lane()));
        turn_ ^= 1, run = row;
      }
    }
  }

 private:
  static constexpr int all_columns = token_warps * unit_columns<Weight>;
  __device__ static int warp() { return int(threadIdx.x) / 32; }
  __device__ static int lane() { return int(threadIdx.x) % 32; }
  __device__ static int first_column() { return warp() * unit_columns<Weight>; }
  __device__ static int own_column() {  // of a load
    return lane() % row_lanes * weights_per_load<Weight>;
  }

  // The oldest tile times x; then its place in the ring takes the next copy.
  __device__ void add_tile(const float* x, TileInput<Weight>& own, TileSums<Weight>& sums) {
    own.load(x, lane());
    const uint4* const tile = ring_ + place_;
    wait_group<depth - 1>();
#pragma unroll
    for (int i = 0; i < tile_loads; ++i) sums.add(i, tile[i * token_threads], own);
    copy_next();
  }

  __device__ void copy_next() {
    uint4* const tile = ring_ + place_;
    constexpr int step = tile_loads * token_threads, all = depth * step;
    if ((place_ += step) >= all) place_ -= all;
#pragma unroll
    for (int i = 0; i < tile_loads; ++i)
      copy_async(tile + i * token_threads, at_ + i * row_lanes * 16,
                 own_column() + i * load_columns<Weight> < left_, policy_);
    commit_group();  // also where nothing is left: groups are counted
    at_ += all_columns * int(sizeof(Weight)), left_ -= all_columns;
    if (left_ <= 0) begin_rows();
  }

  // The next eight rows; where fewer have the same input, the last one several times: memory is
  // read once, and the sums of the copies are ignored. After the last product left_ stays below 1.
  __device__ void begin_rows() {
    row_ += tile_rows;
    if (row_ >= end_ && !begin_input()) return;
    left_ = columns_;
    at_ = row_0_ + int64_t(min(row_ + lane() / row_lanes, end_ - 1)) * row_bytes_;
  }
  // The rows from end_ on, if need be in the next product of which this warp has columns.
  __device__ bool begin_input() {
    row_ = end_;
#pragma unroll 1
    while (row_ >= rows_end_) {
      if (++number_ >= count_) return false;
      const TokenProduct<Weight>& product = products_[number_];
      columns_ = product.columns - first_column(), rows_end_ = product.rows.end;
      row_bytes_ = product.columns * int(sizeof(Weight));
      row_0_ = reinterpret_cast<const char*>(product.matrix + first_column() + own_column());
      end_ = row_ = columns_ > 0 ? product.rows.begin : rows_end_;
    }
    end_ = products_[number_].input_end(row_, in_);
    return true;
  }

  const TokenProduct<Weight>* products_;
  int count_;
  const InputRows* in_;
  RunSums& sums_;
  uint4* ring_;
  int place_, turn_ = 0;  // place_: of the oldest tile in the ring, this thread's part
  uint64_t policy_;
  // The next copy: in rows up to end_, columns from the warp's first one on.
  int number_ = -1, columns_ = 0, rows_end_ = 0, end_ = 0, row_ = 0, left_ = 0, row_bytes_ = 0;
  const char *row_0_ = nullptr, *at_ = nullptr;  // addresses of the thread's columns
};

}  // namespace deltasane::rwkv7::one
