// Tiles in plain C++, with the interface of isa_tile.h, as its manual defines the instructions: a double for tests,
// which run on any processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernel/isa_tile.h"

namespace deltasane::kernel {

class EmulatedTiles {
 public:
  EmulatedTiles() : tiles_(8) {}

  template <int t>
  void zero() {
    static_assert(t < sum_tiles);
    tiles_[t] = {};
  }
  template <int t>
  void load(const void* from, int64_t stride) {
    static_assert(t < 8);
    for (int row = 0; row < tile_rows; ++row)
      std::memcpy(tiles_[t].row[row], static_cast<const std::byte*>(from) + row * stride, row_bytes);
  }
  template <int t>
  void stream(const void* from, int64_t stride) {
    load<t>(from, stride);
  }
  template <int t>
  void store(void* to, int64_t stride) {
    static_assert(t < sum_tiles);
    for (int row = 0; row < tile_rows; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * stride, tiles_[t].row[row], row_bytes);
  }

  // Even and odd inputs are summed apart, then added to the sum.
  template <int sum, int x, int w>
  void multiply_bf16() {
    expect_kinds<sum, x, w>();
    for (int token = 0; token < tile_rows; ++token)
      for (int row = 0; row < tile_rows; ++row) {
        float part[2] = {};
        for (int i = 0; i < row_bytes / 2; ++i)
          part[i % 2] = flushed(std::fma(number(at<uint16_t>(x, token, i)),
                                         number(at<uint16_t>(w, i / 2, row * 2 + i % 2)),
                                         part[i % 2]));
        float& to = at<float>(sum, token, row);
        to = flushed(flushed(part[0] + part[1]) + to);
      }
  }

 private:
  static constexpr int row_bytes = 64;
  struct Tile {
    std::byte row[tile_rows][row_bytes];
  };
  template <int sum, int x, int w>
  static void expect_kinds() {
    static_assert(sum < sum_tiles && x >= x_tile && x < w_tile && w >= w_tile && w < 8);
  }

  template <class Number>
  Number& at(int t, int row, int i) {
    require(row < tile_rows && (i + 1) * int(sizeof(Number)) <= row_bytes, "inside of a tile");
    return reinterpret_cast<Number*>(tiles_[size_t(t)].row[row])[i];
  }
  static float flushed(float x) { return std::abs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
  static float number(uint16_t bf16) {
    return flushed(__builtin_bit_cast(float, uint32_t{bf16} << 16));
  }

  std::vector<Tile> tiles_;
};

}  // namespace deltasane::kernel
