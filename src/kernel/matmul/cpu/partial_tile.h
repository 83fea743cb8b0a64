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

// For what adds to y itself: the part that exists, to or from a copy of a whole tile.
template <int64_t tokens, int64_t rows>
[[gnu::noinline]] void copy_part(cpu::Strided<float> from, cpu::Strided<float> to, Part part) {
  const int64_t tokens_there = part.tokens < tokens ? part.tokens : tokens;
  const size_t bytes = size_t(part.rows < rows ? part.rows : rows) * sizeof(float);
  for (int64_t t = 0; t < tokens_there; ++t) __builtin_memcpy(to.at(t), from.at(t), bytes);
}

}  // namespace
}  // namespace deltasane::kernel
