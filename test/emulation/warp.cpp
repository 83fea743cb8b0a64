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
struct Ballot {
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
// Lane l's part of a matrix.
void read_part(const Square& from, int lane, bool transposed, uint32_t& x) {
  const int i = lane / 4, j = lane % 4 * 2;
  const uint32_t low = transposed ? from[j][i] : from[i][j];
  const uint32_t high = transposed ? from[j + 1][i] : from[i][j + 1];
  x = low | high << 16;
}
void write_part(Square& to, int lane, bool transposed, uint32_t x) {
  const int i = lane / 4, j = lane % 4 * 2;
  (transposed ? to[j][i] : to[i][j]) = uint16_t(x);
  (transposed ? to[j + 1][i] : to[i][j + 1]) = uint16_t(x >> 16);
}

template <bool transposed>
void execute_load(const Lanes& lanes) {
  for (int m = 0; m < 4; ++m) {
    Square square;
    for (int row = 0; row < 8; ++row)
      std::memcpy(square[row], static_cast<const Matrices*>(lanes[8 * m + row])->at, 16);
    for (int lane = 0; lane < warp_lanes; ++lane)
      read_part(square, lane, transposed, static_cast<const Matrices*>(lanes[lane])->x[m]);
  }
}
template <bool transposed>
void execute_store(const Lanes& lanes) {
  for (int m = 0; m < 4; ++m) {
    Square square;
    for (int lane = 0; lane < warp_lanes; ++lane)
      write_part(square, lane, transposed, static_cast<const Matrices*>(lanes[lane])->x[m]);
    for (int row = 0; row < 8; ++row)
      std::memcpy(static_cast<const Matrices*>(lanes[8 * m + row])->at, square[row], 16);
  }
}
void execute_movmatrix(const Lanes& lanes) {
  Square square;
  for (int lane = 0; lane < warp_lanes; ++lane)
    write_part(square, lane, false, *static_cast<uint32_t*>(lanes[lane]));
  for (int lane = 0; lane < warp_lanes; ++lane)
    read_part(square, lane, true, *static_cast<uint32_t*>(lanes[lane]));
}

double number(uint32_t pair, int which) {
  return std::bit_cast<float>(which ? pair & 0xffff0000u : pair << 16);
}
float truncated(double x) {
  return float(std::bit_cast<double>(std::bit_cast<uint64_t>(x) >> 29 << 29));
}

void execute_mma(const Lanes& lanes) {
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
    for (int i = 0; i < 4; ++i) one.c[i] = truncated(c[line + i / 2 * 8][pair + i % 2]);
  }
}

uint16_t* row_at(uint32_t at) {
  expect_aligned(shared_pointer(at), 16);
  return static_cast<uint16_t*>(shared_pointer(at));
}

}  // namespace

uint32_t shuffle(uint32_t x, unsigned from) {
  Shuffle mine{x, 0, from};
  warp_collective("shfl", &mine, [](const Lanes& lanes) {
    for (void* one : lanes) {
      Shuffle& to = *static_cast<Shuffle*>(one);
      to.result = static_cast<const Shuffle*>(lanes[to.from])->x;
    }
  });
  return mine.result;
}

uint32_t ballot(bool x) {
  Ballot mine{x, 0};
  warp_collective("ballot", &mine, [](const Lanes& lanes) {
    uint32_t all = 0;
    for (int lane = 0; lane < warp_lanes; ++lane)
      all |= uint32_t(static_cast<const Ballot*>(lanes[lane])->x) << lane;
    for (void* one : lanes) static_cast<Ballot*>(one)->result = all;
  });
  return mine.result;
}

void sync_warp() {
  warp_collective("syncwarp", nullptr, [](const Lanes&) {});
}

void ldmatrix(uint32_t (&x)[4], uint32_t at, bool transposed) {
  Matrices mine{x, row_at(at)};
  if (transposed)
    warp_collective("ldmatrix.trans", &mine, execute_load<true>);
  else
    warp_collective("ldmatrix", &mine, execute_load<false>);
}

void stmatrix(uint32_t at, const uint32_t (&x)[4], bool transposed) {
  Matrices mine{const_cast<uint32_t*>(x), row_at(at)};
  if (transposed)
    warp_collective("stmatrix.trans", &mine, execute_store<true>);
  else
    warp_collective("stmatrix", &mine, execute_store<false>);
}

uint32_t movmatrix(uint32_t x) {
  warp_collective("movmatrix", &x, execute_movmatrix);
  return x;
}

void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Product mine{c, a, {b0, b1}};
  warp_collective("mma", &mine, execute_mma);
}

}  // namespace deltasane::emulation
