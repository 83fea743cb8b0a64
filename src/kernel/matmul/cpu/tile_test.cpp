// The loops and panels of tiles on any processor, with tiles in plain C++. matmul_test.cpp has the same operators
// on processors that have tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/random.h"
#include "kernel/isa_dispatch.h"
#include "kernel/matmul/check.h"
#include "kernel/matmul/cpu/emulated_tiles.h"
#include "kernel/matmul/cpu/q8_reader.h"
#include "kernel/matmul/cpu/rounded_block.h"
#include "kernel/matmul/cpu/tile_halves.h"
#include "kernel/matmul/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

// Up to 32 tokens by 32 rows, through packed panels.
template <WeightType type>
std::vector<float> tiled(const Weights& w, View<const float> x) {
  using Tile = HalfTiles<Isa::portable, type>;
  const int64_t tokens = x.shape[0], in = w.in(), depth = cpu::rounded_up(in, Tile::inputs);
  std::vector<uint16_t> packed_x(size_t(Tile::tokens * depth * Tile::x_parts), 0xffff);
  std::vector<uint16_t> packed_w(size_t(Tile::rows * depth * Tile::w_parts), 0xffff);
  Tile::pack_x(x.data, x.stride[0], tokens, in, packed_x.data());
  Tile::pack_w(static_cast<const typename Tile::Stored*>(static_cast<const void*>(w.rows())), in,
               w.out(), in, packed_w.data());
  EmulatedTiles tiles;
  Tile tile;
  tile.multiply(tiles, packed_x.data(), packed_w.data(), depth);
  std::vector<float> y(size_t(tokens * w.out()));
  store_part(tile, {y.data(), w.out()}, {tokens, w.out()}, cpu::Sum::start);
  return y;
}

std::vector<float> tiled(const Weights& w, View<const float> x) {
  if (w.type() == WeightType::f32) return tiled<WeightType::f32>(w, x);
  return w.type() == WeightType::f16 ? tiled<WeightType::f16>(w, x) : tiled<WeightType::bf16>(w, x);
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
      // Three parts of a float leave nothing of it.
      const Tensor<float> pairs =
          GetParam() == WeightType::f32 ? x.clone() : reference::bf16_pairs(x.view());
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

INSTANTIATE_TEST_SUITE_P(Types, TilesOfHalves,
                         testing::Values(WeightType::f32, WeightType::f16, WeightType::bf16),
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

// Columns of 32 rows as tiles of W, packed by the kernel of some set.
template <WeightType type>
std::vector<uint16_t> packed_rows(const Weights& w, int64_t row, int64_t column, int64_t depth,
                                  Isa set) {
  std::vector<uint16_t> packed(size_t(32 * cpu::rounded_up(depth, 32)), 0xffff);
  with_isa(set, [&]<Isa isa>() {
    cpu::pack_quantized<isa, type>({w.rows(), w.in(), row, column, w.out() - row, depth},
                                   packed.data());
  });
  return packed;
}

// A number of a step of 32 inputs: (row / 16, input / 2, row % 16, input % 2).
float packed_at(const std::vector<uint16_t>& packed, int64_t row, int64_t input) {
  const int64_t step = input / 32, i = input % 32;
  const int64_t at = ((step * 2 + row / 16) * 16 + i / 2) * 32 + row % 16 * 2 + i % 2;
  return float(bf16::from_bits(packed[size_t(at)]));
}

template <WeightType type>
void expect_rounded_weights() {
  for (const int64_t out : {70, 8, 19, 41})
    for (const Isa isa : built_isas) {
      if (!usable(isa)) continue;
      const MatmulProblem problem({type, 1, out, 512}, uint64_t(out));
      const Weights& w = problem.weights;
      for (int64_t row = 0; row < out; row += 32) {
        const std::vector<uint16_t> packed = packed_rows<type>(w, row, 256, 256, isa);
        for (int64_t r = 0; r < 32; ++r)
          for (int64_t i = 0; i < 256; ++i) {
            const float expected = row + r < out ? float(bf16(w.at(row + r, 256 + i))) : 0.0f;
            ASSERT_EQ(packed_at(packed, r, i), expected)
                << name_of(type) << " " << name_of(isa) << " row " << row + r << " input " << i;
          }
      }
    }
}

TEST(TilesOfQuantized, AreTheWeightsRoundedOnce) {
  expect_rounded_weights<WeightType::q8>();
  expect_rounded_weights<WeightType::q6_k>();
  expect_rounded_weights<WeightType::q5_k>();
  expect_rounded_weights<WeightType::q4_k>();
  expect_rounded_weights<WeightType::q4>();
}

// The numbers that an instruction rounds, as those of base/half.h.
TEST(TilesOfQuantized, FloatsAreRoundedAsBf16) {
  using Tile = HalfTiles<Isa::portable, WeightType::q8>;
  std::vector<float> x{
      0.0f,         -0.0f,          1 + 0x1p-8f, 1 + 0x3p-8f,
      -1 - 0x1p-8f, 1 + 0x1.01p-8f, 0x1.ffp127f, std::numeric_limits<float>::infinity(),
      0x1p-126f};
  Random random(5);
  while (x.size() < 32) x.push_back(float(random.normal()));
  x.push_back(std::bit_cast<float>(0x7f800001u));  // a NaN whose upper half is infinity
  x.push_back(std::bit_cast<float>(0xffffffffu));
  std::vector<uint16_t> packed(size_t(Tile::tokens * 64), 0xffff);
  Tile::pack_x(x.data(), 0, 1, int64_t(x.size()), packed.data());
  for (size_t i = 0; i < 64; ++i) {
    const float number = i < x.size() ? x[i] : 0.0f;
    const uint16_t found = packed[i / 32 * 1024 + i % 32];
    EXPECT_EQ(found, bf16(number).bits) << i;
    EXPECT_EQ(packed[i / 32 * 1024 + 32 + i % 32], 0) << i;  // no second token
  }
}

// A part of 32 tokens by 32 rows, added to y by the tiles, in depths.
template <WeightType type>
Tensor<float> multiplied(const MatmulProblem& problem, int64_t most = 512) {
  using Tile = HalfTiles<Isa::portable, type>;
  const auto& [weight_type, tokens, out, in, store] = problem.shape;
  Tensor<float> whole({tokens + 2, out + 2});
  whole.fill(7.0f);
  const View<float> y = whole.view().slice(0, 1, tokens).slice(1, 1, out);
  for (int64_t t = 0; t < tokens; ++t) std::copy_n(problem.y.view().at(t), out, y.at(t));
  EmulatedTiles tiles;
  const auto sum = store == Store::add ? cpu::Sum::add : cpu::Sum::start;
  std::vector<float> sums(size_t(Tile::tokens * Tile::rows), NAN);
  for (int64_t k = 0; k < in; k += most) {
    const int64_t depth = std::min(most, in - k), padded = cpu::rounded_up(depth, 32);
    std::vector<uint16_t> packed_x(size_t(Tile::tokens * padded), 0xffff);
    Tile::pack_x(problem.x.data() + k, in, tokens, depth, packed_x.data());
    const std::vector<uint16_t> packed_w =
        packed_rows<type>(problem.weights, 0, k, depth, Isa::portable);
    typename Tile::Operands next{packed_x.data(), packed_w.data()};
    Tile::begin(tiles, next);
    Tile::multiply_part(tiles, {y.data, y.stride[0]}, {tokens, out},
                        {sums.data(), k == 0, k + depth == in, sum}, [&] {
                          for (int64_t left = padded; left > 0; left -= Tile::inputs) {
                            const bool last = left == Tile::inputs;
                            next = {last ? packed_x.data() : next.x + Tile::part,
                                    last ? packed_w.data() : next.w + Tile::part};
                            Tile::template step<Tile::Change::both>(tiles, next);
                          }
                        });
  }
  for (int64_t t = 0; t < tokens + 2; ++t)
    for (int64_t o = 0; o < out + 2; ++o) {
      const bool outside = t == 0 || t > tokens || o == 0 || o > out;
      if (outside) {
        EXPECT_EQ(whole.view()(t, o), 7.0f) << t << " " << o;
      }
    }
  Tensor<float> result({tokens, out});
  for (int64_t t = 0; t < tokens; ++t) std::copy_n(y.at(t), out, result.view().at(t));
  return result;
}

// multiply(problem): y.
template <class Multiply>
void expect_close(const MatmulShape& shape, const Multiply& multiply) {
  const auto& [type, tokens, out, in, store] = shape;
  std::vector<float> found, plain;
  std::vector<double> truth;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const MatmulProblem problem(shape, seed * 1000 + uint64_t(in));
    Tensor<double> exact({tokens, out});
    for (int64_t e = 0; e < exact.elements(); ++e) exact[e] = problem.y[e];
    Tensor<float> float_y = problem.y.clone();
    reference::matmul_bf16<double>(problem.weights, problem.x.view(), exact.view(), store);
    reference::matmul_bf16<float>(problem.weights, problem.x.view(), float_y.view(), store);
    const Tensor<float> y = multiply(problem);
    found.insert(found.end(), y.span().begin(), y.span().end());
    plain.insert(plain.end(), float_y.span().begin(), float_y.span().end());
    truth.insert(truth.end(), exact.span().begin(), exact.span().end());
  }
  const Closeness result = closeness(found, plain, truth);
  EXPECT_TRUE(result.close) << name_of(type) << " " << tokens << " " << out << " " << in << " "
                            << result.explanation();
}
template <WeightType type>
void expect_close(int64_t tokens, int64_t out, int64_t in, Store store) {
  expect_close({type, tokens, out, in, store},
               [](const MatmulProblem& problem) { return multiplied<type>(problem); });
}

TEST(TilesOfQuantized, AreAsCloseToTheTruthAsPlainArithmetic) {
  for (const Store store : {Store::overwrite, Store::add}) {
    expect_close<WeightType::q8>(1, 1, 1, store);
    expect_close<WeightType::q8>(13, 17, 33, store);
    expect_close<WeightType::q8>(32, 32, 512, store);
    expect_close<WeightType::q8>(9, 30, 777, store);
    expect_close<WeightType::q6_k>(20, 31, 256, store);
    expect_close<WeightType::q5_k>(32, 9, 256, store);
    expect_close<WeightType::q4_k>(7, 32, 512, store);
    expect_close<WeightType::q4>(32, 24, 96, store);
  }
}

// The sums pass through memory between depths, and are what they would have been in the tiles.
TEST(TilesOfQuantized, DepthsChangeNoBit) {
  for (const Store store : {Store::overwrite, Store::add}) {
    const MatmulProblem problem({WeightType::q8, 9, 30, 777, store}, 3);
    const Tensor<float> whole = multiplied<WeightType::q8>(problem, 800);
    for (const int64_t depth : {256, 512}) {
      const Tensor<float> y = multiplied<WeightType::q8>(problem, depth);
      EXPECT_EQ(std::memcmp(y.data(), whole.data(), size_t(y.elements()) * 4), 0) << depth;
    }
  }
}

using Block = RoundedBlock<Isa::portable, Q8Reader<Isa::portable>, EmulatedTiles>;

// All panels of x, with a panel's rows where x(token) has them.
template <class Row>
std::vector<uint16_t> packed_panels(int64_t tokens, int64_t in, const Row& x) {
  const int64_t all = cpu::rounded_up(tokens, cpu::tile_side);
  std::vector<uint16_t> packed(size_t(all * cpu::rounded_up(in, cpu::tile_side)), 0xffff);
  for (int64_t k = 0; k < in; k += Block::depth) {
    const int64_t depth = std::min(Block::depth, in - k);
    for (int64_t token = 0; token < tokens; token += cpu::tile_side)
      Block::Tile::pack_x(x(token) + k, in, tokens - token, depth,
                          packed.data() + k * all + token * cpu::rounded_up(depth, cpu::tile_side));
  }
  return packed;
}

// A whole product: W is packed beside the tiles, operands are loaded a step ahead.
Tensor<float> in_blocks(const MatmulProblem& problem, cpu::PackedY packed_y = {}) {
  const auto& [type, tokens, out, in, store] = problem.shape;
  const std::vector<uint16_t> x =
      packed_panels(tokens, in, [&](int64_t token) { return problem.x.view().at(token); });
  Tensor<float> y = problem.y.clone();
  std::vector<float> scratch(size_t(cpu::block_floats(Isa::avx512_amx, type)), NAN);
  const cpu::Tiles product{.w = problem.weights.rows(),
                           .w_stride = in,
                           .rows = out,
                           .in = in,
                           .packed = reinterpret_cast<const float*>(x.data()),
                           .tokens = tokens,
                           .y = {y.data(), out},
                           .sum = store == Store::add ? cpu::Sum::add : cpu::Sum::start,
                           .packed_y = packed_y};
  Block::multiply(product, {0, out}, {0, (tokens + cpu::tile_side - 1) / cpu::tile_side},
                  scratch.data());
  return y;
}

// One panel of x, beside which all of W is packed; depths of fewer steps than a unit of W; more tokens, and more
// inputs, than a chunk of x.
TEST(RoundedBlocks, AreAsCloseToTheTruthAsPlainArithmetic) {
  for (const Store store : {Store::overwrite, Store::add})
    for (const auto& [tokens, out, in] : {std::array<int64_t, 3>{1, 41, 1100},
                                          {40, 70, 96},
                                          {70, 100, 777},
                                          {530, 33, 1056}})
      expect_close({WeightType::q8, tokens, out, in, store},
                   [](const MatmulProblem& problem) { return in_blocks(problem); });
}

// The sums, activated, as the x of the next product.
TEST(RoundedBlocks, PackAnActivatedYAsTheNextX) {
  const auto squared_relu = [](float* numbers, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const float positive = std::max(numbers[i], 0.0f);
      numbers[i] = positive * positive;
    }
  };
  for (const auto& [tokens, out, in] : {std::array<int64_t, 3>{1, 40, 64}, {75, 600, 1100}}) {
    const MatmulProblem problem({WeightType::q8, tokens, out, in}, 5);
    Tensor<float> y = in_blocks(problem);
    squared_relu(y.data(), y.elements());
    const std::vector<uint16_t> expected =
        packed_panels(tokens, out, [&](int64_t token) { return y.view().at(token); });
    std::vector<uint16_t> found(expected.size(), 0xffff);
    in_blocks(problem, {found.data(), squared_relu});
    EXPECT_EQ(found, expected) << tokens << " " << out << " " << in;
  }
}

}  // namespace
}  // namespace deltasane::kernel
