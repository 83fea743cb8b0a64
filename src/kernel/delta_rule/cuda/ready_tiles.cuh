// For a warp that reads the terms of a head in the order of its tiles, while another kernel makes them.
#pragma once

#include "kernel/cuda/memory_order.cuh"
#include "kernel/delta_rule/cuda/tile_progress.h"

namespace deltasane::kernel::cuda {

struct ReadyTiles {
  const uint32_t* ready;  // of the head's first tile; see TileProgress
  int tiles;
  int there = 0;  // so many are ready

  // Until a tile is. Each lane polls one. The lane that reads a flag sees what another block wrote
  // before it, and so do the others after __syncwarp.
  __device__ void wait(int tile) {
    while (there <= tile) {
      const int mine = there + threadIdx.x % 32;
      const bool is_ready = mine < tiles && load_acquire(ready + mine);
      there += __clz(__brev(~__ballot_sync(~0u, is_ready)));  // all before the first that is not
      if (there <= tile) wait_for_others();
    }
    __syncwarp();
  }
};

}  // namespace deltasane::kernel::cuda
