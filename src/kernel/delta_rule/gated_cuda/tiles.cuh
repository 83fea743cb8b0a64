// The tiles of a sequence: 16 consecutive tokens each, the last of which ends a chunk. The first and
// the last tile may lack tokens; those count as tokens that change nothing: k = 0, beta = 0, g = 0.
#pragma once

#include <cuda_runtime.h>

#include "kernel/delta_rule/gated_cuda/passes.h"

namespace deltasane::kernel::cuda {

constexpr uint32_t whole_tile = (1u << tile_size) - 1;

struct Tiles {
  int offset, tokens;  // of the first token in its tile; of the sequence
  __device__ Tiles(const GatedRule& op, int64_t sequence)
      : offset(int(op.position % tile_size)),
        tokens(op.lengths ? op.lengths[sequence] : int(op.time)) {}
  __device__ int count() const { return (offset + tokens + tile_size - 1) / tile_size; }
  __device__ bool is_inner(int tile) const {  // not the first or the last, and so whole
    return unsigned(tile - 1) < unsigned(count() - 2);
  }
  __device__ int first(int tile) const { return tile * tile_size - offset; }  // may be negative
  __device__ bool present(int token) const { return token >= 0 && token < tokens; }
  __device__ uint32_t mask(int tile) const {  // of present tokens, a bit each
    const int from = max(0, -first(tile)), to = min(tile_size, tokens - first(tile));
    return (1u << to) - (1u << from);
  }
  __device__ bool ends_chunk(int tile) const { return present(first(tile) + tile_size - 1); }
};

// Which tile. Either those of all heads follow each other, so that rows that are neighbours in memory are
// read at the same time, and the first tiles are ready first; or those of one head.
enum class TileOrder { by_token, by_head };
struct TileOfHead {
  int tile;
  int64_t sequence, head, place;  // place: among the terms
  // which: of less than 2^31, as one's terms take more than 2 KB.
  __device__ TileOfHead(const GatedRule& op, unsigned which, unsigned all_tiles, TileOrder order) {
    const unsigned heads = unsigned(op.heads);
    if (order == TileOrder::by_token) {
      const unsigned neighbours = which / heads;
      tile = int(neighbours % all_tiles);
      sequence = neighbours / all_tiles, head = which % heads;
      place = (sequence * heads + head) * all_tiles + tile;
    } else {
      tile = int(which % all_tiles);
      sequence = which / all_tiles / heads, head = which / all_tiles % heads;
      place = which;
    }
  }
};

// That end in a call, for tau.
__device__ inline int64_t chunk_count(const GatedRule& op) {
  return (op.position % tile_size + op.time) / tile_size;
}
// Of the neutralization after a tile; 0: none.
__device__ inline float tau_after(const GatedRule& op, const Tiles& tiles, int64_t sequence,
                                  int64_t head, int tile) {
  return op.tau && tiles.ends_chunk(tile)
             ? op.tau[(sequence * chunk_count(op) + tile) * op.heads + head]
             : 0.0f;
}

// Where the vectors of a head are: token t's are at `first + t * step`.
struct Rows {
  int64_t first, step;
};
__device__ inline Rows key_rows(const GatedRule& op, int64_t sequence, int64_t head) {
  const int64_t key_head = head / (op.heads / op.key_heads), step = op.key_heads * op.keys;
  return {sequence * op.time * step + key_head * op.keys, step};
}
__device__ inline Rows head_rows(const GatedRule& op, int64_t sequence, int64_t head,
                                 int64_t width) {
  const int64_t step = op.heads * width;
  return {sequence * op.time * step + head * width, step};
}

}  // namespace deltasane::kernel::cuda
