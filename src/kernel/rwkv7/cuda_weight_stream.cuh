// The weights of all products of a token, as a stream that does not stop where the products must
// wait for each other: each thread has its next pieces on their way into shared memory of its own,
// across the ends of products and layers. For cuda_token.cu.
//
// A block has a range of every matrix's rows, a warp every sixteenth row of it, a thread every 32nd
// 16 bytes of the row.
#pragma once

#include "kernel/cuda_async.cuh"
#include "kernel/cuda_lanes.cuh"
#include "kernel/rwkv7/cuda_decode.h"
#include "kernel/rwkv7/cuda_decode_parts.cuh"

namespace deltasane::kernel::cuda {

inline constexpr int token_threads = 512, token_warps = token_threads / 32;
inline constexpr int piece_loads = 4;                                 // of 16 bytes, by a thread
inline constexpr int piece_bytes = piece_loads * 16 * token_threads;  // of a block

template <class Weight>
inline constexpr int token_piece_columns = piece_loads * 32 * per_load<Weight>;
template <class Weight>
__host__ __device__ constexpr int filled_columns(int64_t columns) {
  constexpr int piece = token_piece_columns<Weight>;
  return int((columns + piece - 1) / piece) * piece;
}

struct RowRange {
  int begin, end;
};
// Of a matrix, for one of `blocks`.
__host__ __device__ constexpr RowRange range_of(int64_t rows, int block, int blocks) {
  return {int(rows * block / blocks), int(rows * (block + 1) / blocks)};
}

enum Matrix { matrix_in, matrix_output, matrix_key, matrix_value, matrices };

// The products of a token in their order: four of each layer, then the head.
template <class Weight>
struct TokenProducts {
  const LayerWeights<Weight>* layers;  // in shared memory
  const Weight* head;
  int count, channels, feed_forward;
  RowRange first_in, in, channel, hidden, vocabulary;  // the block's

  struct Product {
    const Weight* matrix;
    int columns;
    RowRange rows;
  };
  __device__ Product operator[](int number) const {
    if (number + 1 == count) return {head, channels, vocabulary};
    const LayerWeights<Weight>& w = layers[number / matrices];
    switch (number % matrices) {
      case matrix_in:
        return {w.in, channels, number == 0 ? first_in : in};
      case matrix_output:
        return {w.output, channels, channel};
      case matrix_key:
        return {w.ffn_key, channels, hidden};
      default:
        return {w.ffn_value, feed_forward, channel};
    }
  }
};

template <class Weight>
class WeightStream {
 public:
  // `ring`: depth pieces of the block, in shared memory.
  __device__ WeightStream(const TokenProducts<Weight>& products, uint4* ring, int depth)
      : products_(products), mine_(ring + threadIdx.x), depth_(depth), policy_(read_once()) {
    begin(0);
    for (int i = 0; i < depth; ++i) ask();
  }

  // The product with this number: finish(row, sum) by one thread for each row of the block, where
  // input(row) is what the row is multiplied with, in shared memory, zero up to filled_columns.
  // Called for all numbers in order, by all threads.
  template <class Input, class Finish>
  __device__ void multiply(int number, Input input, Finish finish) {
    const auto product = products_[number];
    const int warp = int(threadIdx.x) / 32;
    for (int row = product.rows.begin + warp; row < product.rows.end; row += token_warps) {
      const float* const x = input(row);
      float sum[piece_loads] = {};
      for (int from = 0; from < product.columns; from += token_piece_columns<Weight>)
        add_piece(x + from, sum);
      const float all = warp_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
      if (threadIdx.x % 32 == 0) finish(row, all);
    }
  }

 private:
  // The oldest piece times x; then the piece behind the youngest is asked for in its place.
  __device__ void add_piece(const float* x, float (&sum)[piece_loads]) {
    constexpr int V = per_load<Weight>;
    const uint4* const piece = mine_ + slot_ * (piece_loads * token_threads);
    wait_for_groups_before(depth_ - 1);
#pragma unroll
    for (int u = 0; u < piece_loads; ++u) {
      float w[V];
      unpack(piece[u * token_threads], w, Weight());
#pragma unroll
      for (int v = 0; v < V; v += 4) {
        const float4 four =
            *reinterpret_cast<const float4*>(x + (u * V + v) * 32 + (int(threadIdx.x) % 32) * 4);
        sum[u] += w[v] * four.x + w[v + 1] * four.y + w[v + 2] * four.z + w[v + 3] * four.w;
      }
    }
    ask();
  }

  __device__ void ask() {
    constexpr int V = per_load<Weight>;
    uint4* const piece = mine_ + slot_ * (piece_loads * token_threads);
    if (++slot_ == depth_) slot_ = 0;
    if (number_ < products_.count) {
      const int first = column_ + (int(threadIdx.x) % 32) * V;
#pragma unroll
      for (int u = 0; u < piece_loads; ++u) {
        const int c = first + u * 32 * V;
        const bool wanted = c < columns_;
        copy_async(piece + u * token_threads, row_at_ + (wanted ? c : 0), wanted, policy_);
      }
      column_ += token_piece_columns<Weight>;
      if (column_ >= columns_) {
        column_ = 0;
        row_at_ += int64_t(token_warps) * columns_;
        if (--rows_left_ == 0) begin(number_ + 1);
      }
    }
    close_group();  // also an empty one: groups are counted
  }

  // The first product from `number` on of which this warp has rows.
  __device__ void begin(int number) {
    const int warp = int(threadIdx.x) / 32;
    for (number_ = number; number_ < products_.count; ++number_) {
      const auto product = products_[number_];
      const int rows = product.rows.end - product.rows.begin - warp;
      if (rows <= 0) continue;
      rows_left_ = (rows + token_warps - 1) / token_warps;
      columns_ = product.columns;
      row_at_ = product.matrix + int64_t(product.rows.begin + warp) * columns_;
      return;
    }
  }

  const TokenProducts<Weight>& products_;
  uint4* mine_;
  int depth_, slot_ = 0;
  uint64_t policy_;
  // What is asked for next.
  int number_ = 0, column_ = 0, columns_ = 0, rows_left_ = 0;
  const Weight* row_at_ = nullptr;
};

}  // namespace deltasane::kernel::cuda
