#include "emulation/warp.h"

#include <bit>
#include <cstring>

#include "emulation/block.h"

namespace deltasane::emulation {
namespace {

struct Shuffle {
  uint32_t x, result;
  unsigned from;
};
struct Vote {
  bool x;
  uint32_t result;
};
struct Matrices {
  uint32_t* x;
  uint16_t* at;
};
struct Product {
  float* c;
  const uint32_t* a;
  uint32_t b[2];
};

using Square = uint16_t[8][8];
// Where lane l's part of a matrix is.
void take(const Square& from, int lane, bool transposed, uint32_t& x) {
  const int i = lane / 4, j = lane % 4 * 2;
  const uint32_t low = transposed ? from[j][i] : from[i][j];
  const uint32_t high = transposed ? from[j + 1][i] : from[i][j + 1];
  x = low | high << 16;
}
void give(Square& to, int lane, bool transposed, uint32_t x) {
  const int i = lane / 4, j = lane % 4 * 2;
  (transposed ? to[j][i] : to[i][j]) = uint16_t(x);
  (transposed ? to[j + 1][i] : to[i][j + 1]) = uint16_t(x >> 16);
}

template <bool transposed>
void load_together(const Lanes& lanes) {
  for (int m = 0; m < 4; ++m) {
    Square square;
    for (int row = 0; row < 8; ++row)
      std::memcpy(square[row], static_cast<const Matrices*>(lanes[8 * m + row])->at, 16);
    for (int lane = 0; lane < warp_lanes; ++lane)
      take(square, lane, transposed, static_cast<const Matrices*>(lanes[lane])->x[m]);
  }
}
template <bool transposed>
void store_together(const Lanes& lanes) {
  for (int m = 0; m < 4; ++m) {
    Square square;
    for (int lane = 0; lane < warp_lanes; ++lane)
      give(square, lane, transposed, static_cast<const Matrices*>(lanes[lane])->x[m]);
    for (int row = 0; row < 8; ++row)
      std::memcpy(static_cast<const Matrices*>(lanes[8 * m + row])->at, square[row], 16);
  }
}
void transpose_together(const Lanes& lanes) {
  Square square;
  for (int lane = 0; lane < warp_lanes; ++lane)
    give(square, lane, false, *static_cast<uint32_t*>(lanes[lane]));
  for (int lane = 0; lane < warp_lanes; ++lane)
    take(square, lane, true, *static_cast<uint32_t*>(lanes[lane]));
}

double number(uint32_t pair, int which) {
  return std::bit_cast<float>(which ? pair & 0xffff0000u : pair << 16);
}
float shortened(double x) {
  return float(std::bit_cast<double>(std::bit_cast<uint64_t>(x) >> 29 << 29));
}

void multiply_together(const Lanes& lanes) {
  using Two = double __attribute__((vector_size(16)));
  alignas(16) double a[16][16], c[16][8];
  Two b[16][4];
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const Product& one = *static_cast<const Product*>(lanes[lane]);
    const int line = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 2; ++i) {
      for (int part = 0; part < 4; ++part)
        a[line + part % 2 * 8][pair + part / 2 * 8 + i] = number(one.a[part], i);
      for (int part = 0; part < 2; ++part) {
        b[pair + part * 8 + i][line / 2][line % 2] = number(one.b[part], i);
        c[line + part * 8][pair + i] = one.c[part * 2 + i];
      }
    }
  }
  for (int i = 0; i < 16; ++i) {
    Two sum[4];
    std::memcpy(sum, c[i], sizeof(sum));
    for (int k = 0; k < 16; ++k)
      for (int j = 0; j < 4; ++j) sum[j] += a[i][k] * b[k][j];
    std::memcpy(c[i], sum, sizeof(sum));
  }
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const Product& one = *static_cast<const Product*>(lanes[lane]);
    const int line = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) one.c[i] = shortened(c[line + i / 2 * 8][pair + i % 2]);
  }
}

uint16_t* row_at(uint32_t at) {
  fail_unless_aligned(at_shared(at), 16);
  return static_cast<uint16_t*>(at_shared(at));
}

}  // namespace

uint32_t shuffle(uint32_t x, unsigned from) {
  Shuffle mine{x, 0, from};
  meet_lanes("a shuffle", &mine, [](const Lanes& lanes) {
    for (void* one : lanes) {
      Shuffle& to = *static_cast<Shuffle*>(one);
      to.result = static_cast<const Shuffle*>(lanes[to.from])->x;
    }
  });
  return mine.result;
}

uint32_t vote(bool x) {
  Vote mine{x, 0};
  meet_lanes("a vote", &mine, [](const Lanes& lanes) {
    uint32_t all = 0;
    for (int lane = 0; lane < warp_lanes; ++lane)
      all |= uint32_t(static_cast<const Vote*>(lanes[lane])->x) << lane;
    for (void* one : lanes) static_cast<Vote*>(one)->result = all;
  });
  return mine.result;
}

void meet_warp() {
  meet_lanes("a warp's barrier", nullptr, [](const Lanes&) {});
}

void load_matrices(uint32_t (&x)[4], uint32_t at, bool transposed) {
  Matrices mine{x, row_at(at)};
  if (transposed)
    meet_lanes("a load of transposes", &mine, load_together<true>);
  else
    meet_lanes("a load of matrices", &mine, load_together<false>);
}

void store_matrices(uint32_t at, const uint32_t (&x)[4], bool transposed) {
  Matrices mine{const_cast<uint32_t*>(x), row_at(at)};
  if (transposed)
    meet_lanes("a store of transposes", &mine, store_together<true>);
  else
    meet_lanes("a store of matrices", &mine, store_together<false>);
}

uint32_t transpose(uint32_t x) {
  meet_lanes("a transpose", &x, transpose_together);
  return x;
}

void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Product mine{c, a, {b0, b1}};
  meet_lanes("a product", &mine, multiply_together);
}

}  // namespace deltasane::emulation
