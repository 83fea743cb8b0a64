// Storing a tile at the edge of y, of which only a part exists. For files compiled per instruction
// set.
#pragma once

#include "kernel/matmul/cpu/kernels.h"

namespace deltasane::kernel {
namespace {

struct Part {
  int64_t tokens, rows;
};

// Tile: `tokens` by `rows`, and store(y, how) of the whole tile.
template <class Tile>
[[gnu::always_inline]] inline void store_part(const Tile& tile, cpu::Strided<float> y, Part part,
                                              cpu::Sum how) {
  if (part.tokens >= Tile::tokens && part.rows >= Tile::rows) return tile.store(y, how);
  float whole[Tile::tokens * Tile::rows];
  tile.store({whole, Tile::rows}, cpu::Sum::start);
  for (int64_t i = 0; i < Tile::tokens && i < part.tokens; ++i)
    for (int64_t j = 0; j < Tile::rows && j < part.rows; ++j) {
      float& to = y.at(i)[j];
      to = how == cpu::Sum::add ? to + whole[i * Tile::rows + j] : whole[i * Tile::rows + j];
    }
}

}  // namespace
}  // namespace deltasane::kernel
