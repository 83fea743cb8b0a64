// The weights of all products of a token, as a stream that does not stop where the products must
// wait for each other: each thread has its next pieces on their way into shared memory of its own,
// across the ends of products and layers. For cuda_token.cu.
//
// A block has a range of every matrix's rows, and hands on the sums of up to 32 of them together (a
// run), whatever they are multiplied with. A warp has some columns of all of them: every sixteenth
// unit of 128 bytes. A piece is a unit of eight rows in two loads, of 64 bytes a row each (see
// cuda_piece_sums.cuh). So all warps have the same work however few rows there are. Nothing is
// unrolled that need not be: a token runs through all of this code once a layer, and it has to stay
// in the instruction cache.
#pragma once

#include "kernel/cuda_async.cuh"
#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda_in_rows.cuh"
#include "kernel/rwkv7/cuda_piece_sums.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int token_threads = 512, token_warps = token_threads / 32;
inline constexpr int piece_bytes = piece_loads * 16 * token_threads;  // of a block
inline constexpr int run_rows = 32;

template <class Weight>
inline constexpr int unit_columns = piece_loads* load_columns<Weight>;
template <class Weight>
__host__ __device__ constexpr int filled_columns(int64_t columns) {
  constexpr int unit = unit_columns<Weight>;
  return int((columns + unit - 1) / unit) * unit;
}

enum Matrix { matrix_in, matrix_output, matrix_key, matrix_value, matrices };

// A block's part of a product. They follow each other: four of each layer, then the head.
template <class Weight>
struct TokenProduct {
  const Weight* matrix;
  int segments;  // which InRows: rows of different ones read different inputs; or -1
  RowRange rows;
  int columns;

  // Of the block's rows that have the same input as this one.
  __device__ int input_end(int row, const InRows* in) const {
    if (segments < 0) return rows.end;
    return min(rows.end, in[segments].end[in[segments].segment_of(row)]);
  }
};

// What the warps have of a run's sums; two of them, so that one can be added up while the next one
// is written. In shared memory.
struct RunSums {
  static_assert(run_rows == 32 && token_warps == 16);
  // With four more than it needs: so 16-byte reads of neighbours meet every bank once.
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
  // All in shared memory; `ring`: depth pieces of the block.
  __device__ WeightStream(const TokenProduct<Weight>* products, int count, const InRows* in,
                          RunSums& sums, uint4* ring)
      : products_(products),
        count_(count),
        in_(in),
        sums_(sums),
        ring_(ring),
        place_(int(threadIdx.x)),
        policy_(read_once()) {
    begin_rows();
#pragma unroll 1
    for (int i = 0; i < depth; ++i) ask();
  }

  // The product with this number: finish(row, sum) by one thread for each row of the block.
  // inputs + input_of(row) is what the row is multiplied with, in shared memory as PieceInput puts
  // it, zero up to filled_columns. Called for all numbers in order, by all threads; no thread reads
  // an input any more when it returns.
  template <class InputOf, class Finish>
  __device__ void multiply(int number, const float* inputs, InputOf input_of, Finish finish) {
    const TokenProduct<Weight>& product = products_[number];
    const int rows_end = product.rows.end, columns = product.columns;
    PieceInput<Weight> own;
    int run = product.rows.begin;  // the first row of those that are handed on together
#pragma unroll 1
    for (int row = run; row < rows_end;) {
      const int end = product.input_end(row, in_);
      const float* const input = inputs + input_of(row);
#pragma unroll 1
      while (row < end) {
        PieceSums<Weight> sums;
#pragma unroll 1
        for (int first = first_column(); first < columns; first += all_columns)
          add_piece(input + first, own, sums);
        // Behind the end sums are of no row: the next piece's come there.
        RunSums::Row* const rows = sums_.rows[turn_] + (row - run);
        sums.write(lane(), [&](int r, float sum) { rows[r].of_warp[warp()] = sum; });
        __syncwarp();
        row = min(row + piece_rows, end);
        if (row < rows_end && row - run + piece_rows <= run_rows) continue;
        __syncthreads();
        // One warp goes on with the sums: neighbours are written together.
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
  __device__ static int own_column() { return lane() % row_lanes * per_load<Weight>; }  // of a load

  // The oldest piece times x; then the piece behind the youngest is asked for in its place.
  __device__ void add_piece(const float* x, PieceInput<Weight>& own, PieceSums<Weight>& sums) {
    own.load(x, lane());
    const uint4* const piece = ring_ + place_;
    wait_for_groups<depth - 1>();
#pragma unroll
    for (int i = 0; i < piece_loads; ++i) sums.add(i, piece[i * token_threads], own);
    ask();
  }

  __device__ void ask() {
    uint4* const piece = ring_ + place_;
    constexpr int step = piece_loads * token_threads, all = depth * step;
    if ((place_ += step) >= all) place_ -= all;
#pragma unroll
    for (int i = 0; i < piece_loads; ++i)
      copy_async(piece + i * token_threads, at_ + i * row_lanes * 16,
                 own_column() + i * load_columns<Weight> < left_, policy_);
    close_group();  // also where nothing is left: groups are counted
    at_ += all_columns * int(sizeof(Weight)), left_ -= all_columns;
    if (left_ <= 0) begin_rows();
  }

  // The next eight rows; where fewer have the same input, the last one several times: it is read
  // once, and sums of rows behind it are not looked at. Behind the last product left_ stays
  // below 1.
  __device__ void begin_rows() {
    row_ += piece_rows;
    if (row_ >= end_ && !begin_input()) return;
    left_ = columns_;
    at_ = row_0_ + int64_t(min(row_ + lane() / row_lanes, end_ - 1)) * row_bytes_;
  }
  // The rows behind end_, in the next product of which this warp has columns if need be.
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
  const InRows* in_;
  RunSums& sums_;
  uint4* ring_;
  int place_, turn_ = 0;  // of the oldest piece in the ring, this thread's part
  uint64_t policy_;
  // What is asked for next: in rows up to end_, columns from the warp's first one on.
  int number_ = -1, columns_ = 0, rows_end_ = 0, end_ = 0, row_ = 0, left_ = 0, row_bytes_ = 0;
  const char *row_0_ = nullptr, *at_ = nullptr;  // where the thread's columns lie
};

}  // namespace deltasane::kernel::cuda
