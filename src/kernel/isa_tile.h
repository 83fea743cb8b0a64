// Tiles: registers of the processor that hold small matrices, up to 16 rows of 64 bytes (AMX).
//
//   HardwareTiles<isa>::present   whether the set has them; if not, it has no other member
//   HardwareTiles tiles           a thread has them until the end of `tiles`, and one such object at a time
//   zero<t>()                     of 0 .. 3, sums: 16 tokens by 16 rows of W, float
//   load<t>(from, stride)         of these, of 4, 5, x: (token, 32 inputs), and of 6, 7, W: (line, row of W, 2
//                                 inputs), where a line has the next two of each of 16 rows; what is 16 here is
//                                 `stride` bytes apart
//   stream<t>(from, stride)       the same, of what the first-level cache need not keep
//   store<t>(to, stride)          of 0 .. 3
//   multiply_bf16<sum, x, w>()    adds the products of bf16 numbers: sums are float; subnormals are 0
//
// For files compiled per instruction set: everything here is in an unnamed namespace.
#pragma once

#include <cstdint>

#include "kernel/isa.h"

namespace deltasane::kernel {
namespace {

inline constexpr int tile_rows = 16;  // tokens, and rows of W
inline constexpr int sum_tiles = 4, x_tile = 4, w_tile = 6;  // the first of each kind

template <Isa isa>
struct HardwareTiles {
  static constexpr bool present = false;
};

#if defined(__AMX_BF16__)
template <>
class HardwareTiles<Isa::avx512_amx> {
 public:
  static constexpr bool present = true;

  HardwareTiles() {
    Shapes shapes{};
    shapes.palette = 1;
    for (int t = 0; t < 8; ++t) shapes.row_bytes[t] = 64, shapes.rows[t] = tile_rows;
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;
  ~HardwareTiles() { asm volatile("tilerelease"); }

  // Compilers have functions for these, but GCC 12's are macros that take no constant of a template.
  template <int t>
  [[gnu::always_inline]] inline void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(t));
  }
  template <int t>
  [[gnu::always_inline]] inline void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  [[gnu::always_inline]] inline void stream(const void* from, int64_t stride) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  [[gnu::always_inline]] inline void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(t) : "memory");
  }
  template <int sum, int x, int w>
  [[gnu::always_inline]] inline void multiply_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sum), "i"(x), "i"(w));
  }

 private:
  struct alignas(64) Shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Shapes) == 64);
};
#endif

}  // namespace
}  // namespace deltasane::kernel
