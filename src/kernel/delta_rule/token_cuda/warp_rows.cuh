// Which rows of a state a warp has, and what it reads of a token: for both passes over the tokens of
// a sequence.
#pragma once

#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/delta_rule/token_cuda/state_rows.cuh"
#include "kernel/delta_rule/token_cuda/token_rule.h"

namespace deltasane::kernel::cuda {

inline constexpr int warps = 4, warp_rows = 4;
inline constexpr int64_t saved_tile = 16;

// Blocks that share a head's rows.
__host__ __device__ inline int64_t row_blocks(int64_t values) {
  return (values + warps * warp_rows - 1) / (warps * warp_rows);
}
__host__ __device__ inline int64_t saved_tiles(int64_t time) {
  return (time + saved_tile - 1) / saved_tile;
}

// The grid is (heads row blocks, sequences).
template <class Real>
struct RowsOfWarp {
  const TokenRule<Real>& op;
  int64_t block, head, key_head, sequence, first;  // block: of the head's
  int row, length;
  __device__ explicit RowsOfWarp(const TokenRule<Real>& of, int64_t first_sequence = 0)
      : op(of),
        block(blockIdx.x % row_blocks(of.values)),
        head(blockIdx.x / row_blocks(of.values)),
        key_head(head / (of.heads / of.key_heads)),
        sequence(first_sequence + blockIdx.y),
        first(of.rows.first[sequence]),
        row((int(block) * warps + int(threadIdx.x) / 32) * warp_rows),
        length(of.rows.length[sequence]) {}

  // Of token t, which ends a chunk.
  __device__ float tau(int64_t position, int64_t t) const {
    if (op.chunks == 0) return op.tau[(first + t) * op.heads + head];
    return op.tau[chunk_at(position + t)];
  }
  __device__ int64_t chunk_at(int64_t t) const {
    return (sequence * op.chunks + t / op.chunk) * op.heads + head;
  }
  __device__ float* saved(int64_t tile) const {
    const int64_t state = (sequence * op.heads + head) * saved_tiles(op.rows.longest) + tile;
    return op.saved + (state * op.values + row) * op.keys;
  }
};

// A lane's channels of token t.
template <class Real, int channels>
struct TokenVectors {
  float k[channels], r[channels], w[channels];
  __device__ TokenVectors(const RowsOfWarp<Real>& mine, int64_t t) {
    const TokenRule<Real>& op = mine.op;
    const int64_t key_at = ((mine.first + t) * op.key_heads + mine.key_head) * op.keys;
    const int64_t of_head = (mine.first + t) * op.heads + mine.head;
    const float of_all = op.rule == Rule::gated_deltanet ? expf(op.g[of_head]) : 1.0f;
#pragma unroll
    for (int c = 0; c < channels; ++c) {
      const int at = 32 * c + int(threadIdx.x) % 32;
      const bool has = at < op.keys;
      k[c] = has ? to_float(op.k[key_at + at]) : 0.0f;
      r[c] = has ? to_float(op.r[key_at + at]) : 0.0f;
      w[c] = op.rule == Rule::kda && has ? expf(op.g[of_head * op.keys + at]) : of_all;
    }
  }
};

}  // namespace deltasane::kernel::cuda
