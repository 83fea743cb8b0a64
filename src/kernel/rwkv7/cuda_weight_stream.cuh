// The weights of all products of a token, as a stream that does not stop where the products must
// wait for each other: each thread has its next pieces on their way into shared memory of its own,
// across the ends of products and layers. For cuda_token.cu.
//
// A block has a range of every matrix's rows, and makes the sums of up to 32 of them together (a
// run). A warp has some columns of all of them: every sixteenth unit of 128 bytes, which is eight
// threads wide, so that a load of the warp has four rows. So a thread's part of the input stays in
// registers, all warps have the same work however few rows there are, and shared memory is written
// and read once for each weight.
#pragma once

#include "kernel/cuda_async.cuh"
#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda_in_rows.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int token_threads = 512, token_warps = token_threads / 32;
inline constexpr int unit_threads = 8, load_rows = 32 / unit_threads;
inline constexpr int piece_loads = 2, piece_rows = piece_loads * load_rows;
inline constexpr int piece_bytes = piece_loads * 16 * token_threads;  // of a block
inline constexpr int run_rows = 32, run_loads = run_rows / load_rows;

template <class Weight>
inline constexpr int unit_columns = unit_threads* per_load<Weight>;
template <class Weight>
__host__ __device__ constexpr int filled_columns(int64_t columns) {
  constexpr int unit = unit_columns<Weight>;
  return int((columns + unit - 1) / unit) * unit;
}

enum Matrix { matrix_in, matrix_output, matrix_key, matrix_value, matrices };

// The products of a token in their order: four of each layer, then the head.
template <class Weight>
struct TokenProducts {
  const LayerWeights<Weight>* layers;  // in shared memory
  const Weight* head;
  int count, channels, feed_forward;
  RowRange first_in, in, channel, hidden, vocabulary;  // the block's
  InRows first_segments, segments;

  struct Product {
    const Weight* matrix;
    int columns;
    RowRange rows;
    const InRows* segments = nullptr;  // rows of different ones read different inputs
    // Of the run that begins with this row.
    __device__ int run_end(int row) const {
      const int end = min(row + run_rows, rows.end);
      return segments ? min(end, segments->end[segments->segment_of(row)]) : end;
    }
  };
  __device__ Product operator[](int number) const {
    if (number + 1 == count) return {head, channels, vocabulary};
    const LayerWeights<Weight>& w = layers[number / matrices];
    switch (number % matrices) {
      case matrix_in:
        return {w.in, channels, number == 0 ? first_in : in,
                number == 0 ? &first_segments : &segments};
      case matrix_output:
        return {w.output, channels, channel};
      case matrix_key:
        return {w.ffn_key, channels, hidden};
      default:
        return {w.ffn_value, feed_forward, channel};
    }
  }
};

// What the warps have of a run's sums; two of them, so that one can be added up while the next one
// is written. In shared memory.
struct RunSums {
  float parts[2][token_warps][run_rows + 1];
};

template <class Weight>
class WeightStream {
 public:
  // `ring`: depth pieces of the block, in shared memory.
  __device__ WeightStream(const TokenProducts<Weight>& products, RunSums& sums, uint4* ring,
                          int depth)
      : products_(products),
        sums_(sums),
        mine_(ring + threadIdx.x),
        depth_(depth),
        policy_(read_once()) {
    begin_next();
    for (int i = 0; i < depth; ++i) ask();
  }

  // The product with this number: finish(row, sum) by one thread for each row of the block, where
  // input(row) is what the row is multiplied with, in shared memory, zero up to filled_columns.
  // Called for all numbers in order, by all threads; no thread reads an input any more when it
  // returns. meanwhile() is called when the last weights have been used and sums are still added
  // up.
  template <class Input, class Finish, class Meanwhile>
  __device__ void multiply(int number, Input input, Finish finish, Meanwhile meanwhile) {
    constexpr int V = per_load<Weight>;
    const auto product = products_[number];
    for (int row = product.rows.begin, end; row < product.rows.end; row = end) {
      end = product.run_end(row);
      const float* const x = input(row) + lane() % unit_threads * V;
      float sum[run_loads] = {};
      for (int first = warp() * unit_columns<Weight>; first < product.columns;
           first += token_warps * unit_columns<Weight>) {
        float own[V];
#pragma unroll
        for (int v = 0; v < V; v += 4) {
          const float4 four = *reinterpret_cast<const float4*>(x + first + v);
          own[v] = four.x, own[v + 1] = four.y, own[v + 2] = four.z, own[v + 3] = four.w;
        }
#pragma unroll
        for (int load = 0; load < run_loads; load += piece_loads)
          if (row + load * load_rows < end) add_piece(own, sum + load);
      }
      if (end == product.rows.end) meanwhile();
      add_up(sum, row, end, finish);
    }
  }

 private:
  __device__ static int warp() { return int(threadIdx.x) / 32; }
  __device__ static int lane() { return int(threadIdx.x) % 32; }

  // The oldest piece times the thread's inputs; then the piece behind the youngest is asked for in
  // its place.
  __device__ void add_piece(const float (&own)[per_load<Weight>], float* sum) {
    constexpr int V = per_load<Weight>;
    const uint4* const piece = mine_ + slot_ * (piece_loads * token_threads);
    wait_for_groups_before(depth_ - 1);
#pragma unroll
    for (int i = 0; i < piece_loads; ++i) {
      float w[V];
      unpack(piece[i * token_threads], w, Weight());
      float even = w[0] * own[0], odd = w[1] * own[1];
#pragma unroll
      for (int v = 2; v < V; v += 2)
        even = fmaf(w[v], own[v], even), odd = fmaf(w[v + 1], own[v + 1], odd);
      sum[i] += even + odd;
    }
    ask();
  }

  // Thread l of a warp gets what the warp has of row l / 8 + 4 (l % 8) of the run; then sixteen
  // threads add up what the warps have of a row.
  template <class Finish>
  __device__ void add_up(float (&sum)[run_loads], int row, int end, Finish finish) {
    static_assert(run_loads == unit_threads && run_rows == 2 * token_warps);
#pragma unroll
    for (int half = run_loads / 2; half > 0; half /= 2) {
      const bool upper = threadIdx.x & half;
#pragma unroll
      for (int i = 0; i < half; ++i) {
        const float kept = upper ? sum[i + half] : sum[i], given = upper ? sum[i] : sum[i + half];
        sum[i] = kept + __shfl_xor_sync(~0u, given, half);
      }
    }
    auto& parts = sums_.parts[turn_];
    turn_ ^= 1;
    parts[warp()][lane() / unit_threads + load_rows * (lane() % unit_threads)] = sum[0];
    __syncthreads();
    const int mine = warp() + lane() / token_warps * token_warps;
    float all = parts[lane() % token_warps][mine];
#pragma unroll
    for (int away = token_warps / 2; away > 0; away /= 2) all += __shfl_xor_sync(~0u, all, away);
    if (lane() % token_warps == 0 && row + mine < end) finish(row + mine, all);
  }

  __device__ void ask() {
    uint4* const piece = mine_ + slot_ * (piece_loads * token_threads);
    if (++slot_ == depth_) slot_ = 0;
    if (number_ < products_.count) {
#pragma unroll
      for (int i = 0; i < piece_loads; ++i) {
        const bool wanted = inside_ && row_ + i * load_rows + lane() / unit_threads < run_end_;
        copy_async(piece + i * token_threads,
                   wanted ? at_ + int64_t(i * load_rows) * columns_ : matrix_, wanted, policy_);
      }
      row_ += piece_rows;
      at_ += int64_t(piece_rows) * columns_;
      if (row_ >= run_end_) begin_next();
    }
    close_group();  // also an empty one: groups are counted
  }

  // The next unit of the run, or the first one of the next run, in the next product of which this
  // warp has columns.
  __device__ void begin_next() {
    unit_ += token_warps;
    if (unit_ * unit_columns<Weight> >= columns_) {
      unit_ = warp();
      run_begin_ = run_end_;
      if (run_begin_ == rows_end_ && !begin_product()) return;
      run_end_ = products_[number_].run_end(run_begin_);
    }
    const int column = unit_ * unit_columns<Weight> + lane() % unit_threads * per_load<Weight>;
    inside_ = column < columns_;
    row_ = run_begin_;
    at_ = matrix_ + int64_t(row_ + lane() / unit_threads) * columns_ + column;
  }
  __device__ bool begin_product() {
    while (++number_ < products_.count) {
      const auto product = products_[number_];
      columns_ = product.columns, matrix_ = product.matrix;
      run_begin_ = product.rows.begin, rows_end_ = product.rows.end;
      if (run_begin_ < rows_end_ && unit_ * unit_columns<Weight> < columns_) return true;
    }
    return false;
  }

  const TokenProducts<Weight>& products_;
  RunSums& sums_;
  uint4* mine_;
  int depth_, slot_ = 0, turn_ = 0;
  uint64_t policy_;
  // What is asked for next.
  int number_ = -1, columns_ = 0, rows_end_ = 0, run_begin_ = 0, run_end_ = 0, unit_ = 0, row_ = 0;
  bool inside_ = false;
  const Weight *matrix_ = nullptr, *at_ = nullptr;
};

}  // namespace deltasane::kernel::cuda
