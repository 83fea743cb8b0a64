// Which tiles' terms are in memory: a kernel that walks over the states runs beside the one that
// makes the terms, and waits tile by tile.
#pragma once

#include <cstdint>

namespace deltasane::kernel::cuda {

struct TileProgress {
  uint32_t* claimed = nullptr;  // tiles that have been claimed beyond the first ones of all blocks
  uint32_t* ready = nullptr;    // (head, tile): whether its terms are there; null: all are
  TileProgress() = default;
  explicit TileProgress(uint32_t* words) : claimed(words), ready(words + 1) {}
  // Zeros at first; a multiple of 16 bytes.
  static int64_t words(int64_t tiles) { return (tiles + 1 + 3) / 4 * 4; }
};

}  // namespace deltasane::kernel::cuda
