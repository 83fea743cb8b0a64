// The loops and panels of tiles on any processor, with tiles in plain C++. matmul_test.cpp has the same operators
// on processors that have tiles.
#include <gtest/gtest.h>

#include <limits>

#include "base/half.h"
#include "base/random.h"
#include "kernel/matmul/cpu/emulated_tiles.h"
#include "kernel/matmul/cpu/tile_halves.h"
#include "kernel/matmul/cpu/tile_q8.h"
#include "kernel/matmul/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

// Small integers and powers of two, so that every sum is exact.
template <int scales, bool minimum>
struct ByteProblem {
  using Panel = InPanel<Isa::avx512_amx, scales, minimum>;
  int64_t tokens, rows, in, blocks = q8_blocks(in);
  Random random{uint64_t(tokens * 7 + rows + in)};
  std::vector<typename Panel::Block> panel{size_t(blocks)};
  std::vector<int8_t> x;
  std::vector<float> scale;
  std::vector<cpu::HalfSums> total;

  int64_t up_to(int64_t end) { return int64_t(random.word64() % uint64_t(end)); }

  ByteProblem(int64_t some_tokens, int64_t some_rows, int64_t inputs)
      : tokens(some_tokens), rows(some_rows), in(inputs) {
    for (auto& block : panel) {
      for (auto& four : block.value)
        for (auto& row : four)
          for (int8_t& value : row) value = int8_t(up_to(256) - 128);
      for (auto& factors : block.factor)
        for (float& factor : factors) factor = float(up_to(5) - 2);
    }
    const int64_t groups = (tokens + tile_rows - 1) / tile_rows;
    for (int64_t i = 0; i < groups * blocks * tile_rows; ++i) {
      cpu::HalfSums sums{};
      for (int64_t k = 0; k < q8_columns; ++k) {
        x.push_back(int8_t(up_to(31) - 15));
        sums.half[k / 16] = int16_t(sums.half[k / 16] + x.back());
      }
      total.push_back(sums);
      scale.push_back(float(1 << up_to(2)));
    }
  }

  float truth(int64_t token, int64_t row) const {
    double sum = 0;
    for (int64_t b = 0; b < blocks; ++b) {
      const auto& block = panel[size_t(b)];
      const auto at = size_t((token / tile_rows * blocks + b) * tile_rows + token % tile_rows);
      double of_block = 0;
      for (int64_t k = 0; k < q8_columns; ++k) {
        const double value = x[at * q8_columns + size_t(k)];
        of_block += value * block.value[k / 4][row][k % 4] *
                    double(block.factor[k * scales / q8_columns][row]);
        if (minimum) of_block -= value * double(block.factor[scales][row]);
      }
      sum += of_block * double(scale[at]);
    }
    return float(sum);
  }

  void expect_truth(cpu::Sum how) {
    constexpr float before = 3;
    const int64_t stride = rows + 5;
    std::vector<float> y(size_t((tokens + 1) * stride), before);
    const int64_t groups = (tokens + tile_rows - 1) / tile_rows;
    const cpu::Q8Product product{
        nullptr,
        rows,
        in,
        {x.data(), scale.data(), total.data(), tokens, cpu::Q8Layout::tiles},
        {y.data() + 2, stride},
        how};
    const Panel w{panel.data()};
    multiply_byte_tiles<EmulatedTiles>(w, product, 0, {0, groups / 2});
    multiply_byte_tiles<EmulatedTiles>(w, product, 0, {groups / 2, groups});
    for (int64_t t = 0; t <= tokens; ++t)
      for (int64_t r = -2; r < stride - 2; ++r) {
        const bool inside = t < tokens && r >= 0 && r < rows;
        const float added = how == cpu::Sum::add || !inside ? before : 0;
        ASSERT_EQ(y[size_t(t * stride + r + 2)], added + (inside ? truth(t, r) : 0))
            << tokens << " tokens, token " << t << ", row " << r;
      }
  }
};

template <int scales, bool minimum>
void expect_exact_bytes() {
  for (const int64_t tokens : {1, 16, 37, 80})
    for (const int64_t rows : {1, 17, 48})
      for (const int64_t in : {32, 64, 96, 160})
        for (const cpu::Sum how : {cpu::Sum::start, cpu::Sum::add})
          ByteProblem<scales, minimum>(tokens, rows, in).expect_truth(how);
}

TEST(TilesOfBytes, AreExactWithOneScale) { expect_exact_bytes<1, false>(); }
TEST(TilesOfBytes, AreExactWithTwoScales) { expect_exact_bytes<2, false>(); }
TEST(TilesOfBytes, AreExactWithAMinimum) { expect_exact_bytes<1, true>(); }

// Up to 32 tokens by 32 rows, through packed panels.
template <WeightType type>
std::vector<float> tiled(const Weights& w, View<const float> x) {
  using Tile = HalfTiles<Isa::portable, type>;
  const int64_t tokens = x.shape[0], in = w.in(), depth = cpu::rounded_up(in, Tile::inputs);
  std::vector<uint16_t> packed_x(size_t(Tile::tokens * depth * Tile::x_parts), 0xffff);
  std::vector<uint16_t> packed_w(size_t(Tile::rows * depth * Tile::w_parts), 0xffff);
  Tile::pack_x(x.data, x.stride[0], tokens, in, packed_x.data());
  Tile::pack_w(reinterpret_cast<const uint16_t*>(w.rows()), in, w.out(), in, packed_w.data());
  EmulatedTiles tiles(64);
  Tile tile;
  tile.multiply(tiles, packed_x.data(), packed_w.data(), depth);
  std::vector<float> y(size_t(tokens * w.out()));
  store_part(tile, {y.data(), w.out()}, {tokens, w.out()}, cpu::Sum::start);
  return y;
}

std::vector<float> tiled(const Weights& w, View<const float> x) {
  return w.type() == WeightType::f16 ? tiled<WeightType::f16>(w, x)
                                     : tiled<WeightType::bf16>(w, x);
}

class TilesOfHalves : public testing::TestWithParam<WeightType> {};

TEST_P(TilesOfHalves, AreAsCloseToTheTruthAsPlainArithmetic) {
  for (const auto& [tokens, out, in] : {std::array<int64_t, 3>{1, 1, 1},
                                        {13, 17, 33},
                                        {32, 32, 64},
                                        {20, 31, 250},
                                        {32, 32, 256}}) {
    std::vector<float> found, plain;
    std::vector<double> truth;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Random random(seed * 1000 + uint64_t(in));
      std::vector<float> rows(size_t(out * in));
      for (float& w : rows) w = float(0.1 * random.normal());
      Tensor<float> x({tokens, in}), float_y({tokens, out});
      for (float& number : x.span()) number = float(random.normal());
      Tensor<double> exact({tokens, out});
      const Weights w = Weights::copied(GetParam(), rows, out, in);
      const Tensor<float> pairs = reference::bf16_pairs(x.view());
      reference::matmul<double>(w, pairs.view(), exact.view());
      reference::matmul<float>(w, pairs.view(), float_y.view());
      const std::vector<float> y = tiled(w, x.view());
      found.insert(found.end(), y.begin(), y.end());
      plain.insert(plain.end(), float_y.span().begin(), float_y.span().end());
      truth.insert(truth.end(), exact.span().begin(), exact.span().end());
    }
    const Closeness result = closeness(found, plain, truth);
    EXPECT_TRUE(result.close) << tokens << " " << out << " " << in << " " << result.explanation();
  }
}

TEST_P(TilesOfHalves, KeepInfiniteNumbersAndGiveANanToItsTokenOnly) {
  constexpr int64_t tokens = 5, out = 19, in = 40;
  constexpr float infinity = std::numeric_limits<float>::infinity(), large = 0x1.ff8p127f;
  std::vector<float> rows(size_t(out * in), 0.25f);
  rows[3 * in + 39] = infinity;
  const Weights w = Weights::copied(GetParam(), rows, out, in);
  Tensor<float> x({tokens, in});
  x.fill(1.0f);
  const float special[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), large};
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t i = 0; i < in; ++i) x.view()(t, i) = i == 39 ? special[t] : 0.0f;
  const std::vector<float> y = tiled(w, x.view());
  for (int64_t r = 0; r < out; ++r) {
    const auto of_token = [&](int64_t t) { return y[size_t(t * out + r)]; };
    EXPECT_EQ(of_token(0), infinity);
    EXPECT_EQ(of_token(1), -infinity);
    EXPECT_TRUE(std::isnan(of_token(2)));
    EXPECT_EQ(of_token(3), r == 3 ? infinity : 0.25f * large);
    EXPECT_EQ(of_token(4), r == 3 ? infinity : 0.25f * in);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TilesOfHalves, testing::Values(WeightType::f16, WeightType::bf16),
                         [](const auto& type) { return name_of(type.param); });

// An f16 number is exactly the sum of two bf16 numbers.
TEST(TilesOfHalves, EveryF16NumberIsExact) {
  std::vector<uint16_t> bits(0x10000);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = uint16_t(i);
  Tensor<float> x({1, 1});
  x.fill(2.0f);
  for (size_t first = 0; first < bits.size(); first += 32) {
    const std::vector<float> y =
        tiled(Weights::view(WeightType::f16, bits.data() + first, 32, 1), x.view());
    for (size_t i = 0; i < 32; ++i) {
      const float w = float(f16::from_bits(bits[first + i]));
      if (std::isnan(w))
        ASSERT_TRUE(std::isnan(y[i])) << first + i;
      else
        ASSERT_EQ(y[i], w * 2) << first + i;
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel
