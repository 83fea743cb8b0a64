#include "kernel/matmul/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/random.h"
#include "kernel/matmul/low_bits/input_squares.h"
#include "kernel/matmul/matmul.h"
#include "support/errors.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

std::vector<float> random_numbers(int64_t count, uint64_t seed, double scale) {
  Random stream(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) x = float(scale * stream.normal());
  return numbers;
}

TEST(InputSquares, AreTheSumsOfEveryProduct) {
  ThreadPool threads(2);
  const Weights one = Weights::copied(WeightType::f32, random_numbers(3 * 5, 1, 1.0), 3, 5);
  const Weights two = Weights::copied(WeightType::f16, random_numbers(2 * 5, 2, 1.0), 2, 5);
  const Weights other = Weights::copied(WeightType::f32, random_numbers(2 * 5, 3, 1.0), 2, 5);
  InputSquares squares;
  for (const int64_t tokens : {1, 20}) {
    Tensor<float> x({tokens, 5}), y({tokens, 3}), z({tokens, 2});
    for (int64_t i = 0; i < x.elements(); ++i) x[i] = float(i % 7 - 3);
    const Matmul both[] = {{one, x.view(), y.view()}, {two, x.view(), z.view()}};
    matmul_all(both, {threads, best_isa(), &squares});
  }
  double sums[5] = {};
  for (const int tokens : {1, 20})
    for (int i = 0; i < 5 * tokens; ++i) sums[i % 5] += (i % 7 - 3) * (i % 7 - 3);
  for (const Weights* w : {&one, &two}) {
    ASSERT_TRUE(squares.of(*w));
    EXPECT_EQ(squares.of(*w)->tokens, 21);
    EXPECT_EQ(squares.of(*w)->sums, std::vector<double>(sums, sums + 5));
  }
  EXPECT_FALSE(squares.of(other));
}

TEST(Weights, HoldWhatTheyWereGiven) {
  const std::vector<float> rows = random_numbers(7 * 45, 1, 1.0);
  const Weights f32 = Weights::copied(WeightType::f32, rows, 7, 45);
  const Weights half = Weights::copied(WeightType::f16, rows, 7, 45);
  const Weights brain = Weights::copied(WeightType::bf16, rows, 7, 45);
  for (int64_t i = 0; i < 7 * 45; ++i) {
    EXPECT_EQ(f32.at(i / 45, i % 45), rows[size_t(i)]);
    EXPECT_EQ(half.at(i / 45, i % 45), float(f16(rows[size_t(i)])));
    EXPECT_EQ(brain.at(i / 45, i % 45), float(bf16(rows[size_t(i)])));
  }
  EXPECT_EQ(f32.bytes(), 7u * 45 * 4);
  EXPECT_EQ(half.bytes(), 7u * 45 * 2);
  EXPECT_EQ(Weights::quantized(rows, 7, 45).bytes(), 8u * 2 * 34);
}

// A q8 weight is off by at most half its scale; the scale is at most one f16 step above the least.
TEST(Weights, Q8IsOffByAtMostHalfAStep) {
  for (const double size : {1e-6, 1e-3, 0.02, 1.0, 3e4}) {
    const std::vector<float> rows = random_numbers(19 * 75, 2, size);
    const Weights q8 = Weights::quantized(rows, 19, 75);
    for (int64_t r = 0; r < 19; ++r)
      for (int64_t c = 0; c < 75; ++c) {
        double largest = 0;
        for (int64_t i = c / 32 * 32; i < std::min<int64_t>(75, c / 32 * 32 + 32); ++i)
          largest = std::max(largest, std::abs(double(rows[size_t(r * 75 + i)])));
        const double step = largest / 127 * (1 + 0x1p-10) + 0x1p-24;
        EXPECT_LE(std::abs(double(q8.at(r, c)) - rows[size_t(r * 75 + c)]), step / 2 * 1.000001);
      }
  }
}

TEST(Weights, Q8OfHalvesNeedsNoFloats) {
  const std::vector<float> rows = random_numbers(9 * 70, 3, 0.1);
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16}) {
    const Weights floats = Weights::copied(type, rows, 9, 70);
    std::vector<float> rounded;
    for (int64_t i = 0; i < 9 * 70; ++i) rounded.push_back(floats.at(i / 70, i % 70));
    const Weights expected = Weights::quantized(rounded, 9, 70);
    const Weights found = Weights::quantized(floats);
    EXPECT_EQ(std::memcmp(found.rows(), expected.rows(), found.bytes()), 0);
  }
}

TEST(Weights, ZerosStayZeros) {
  const Weights q8 = Weights::quantized(std::vector<float>(3 * 40, 0.0f), 3, 40);
  for (int64_t i = 0; i < 3 * 40; ++i) EXPECT_EQ(q8.at(i / 40, i % 40), 0.0f);
}

// GGUF's blocks, including values no quantizer of floats makes (-128) and a negative scale.
TEST(Weights, FromGgufBlocksExactly) {
  constexpr int64_t out = 11, in = 96, count = out * in / 32;
  std::vector<std::byte> blocks(count * 34);
  Random stream(4);
  for (int64_t b = 0; b < count; ++b) {
    const f16 scale(float(0.01 * stream.normal()));
    std::memcpy(&blocks[size_t(b * 34)], &scale.bits, 2);
    for (int64_t i = 0; i < 32; ++i)
      blocks[size_t(b * 34 + 2 + i)] = std::byte((b * 37 + i * 11) % 256);
  }
  const Weights q8 = Weights::from_gguf(WeightType::q8, blocks, out, in);
  std::vector<double> rows;
  for (int64_t e = 0; e < out * in; ++e) {
    f16 scale;
    std::memcpy(&scale.bits, &blocks[size_t(e / 32 * 34)], 2);
    const auto value = int8_t(blocks[size_t(e / 32 * 34 + 2 + e % 32)]);
    rows.push_back(double(float(scale)) * value);
    EXPECT_EQ(q8.at(e / in, e % in), float(scale) * float(value));
  }
  EXPECT_EQ(q8.bytes(), (out + 5) / 8 * 8 * in / 32 * 34u);
}

// The bound that matmul.h states: each weight and each input is off by at most half its step.
// Matrices in one arena, some larger than its blocks, equal those in their own memory.
TEST(Weights, SharedMemoryHoldsTheSameBytes) {
  WeightMemory memory(5000);
  std::vector<Weights> own, shared;
  for (const int64_t out : {1, 7, 300, 9})
    for (const WeightType type :
         {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::q8}) {
      const int64_t in = 37;
      const std::vector<float> rows = random_numbers(out * in, uint64_t(out), 1.0);
      own.push_back(Weights::copied(type, rows, out, in));
      shared.push_back(Weights::copied(type, rows, out, in, &memory));
      shared.push_back(Weights::copied(own.back(), &memory));
    }
  for (size_t i = 0; i < own.size(); ++i)
    for (const Weights* copy : {&shared[2 * i], &shared[2 * i + 1]}) {
      EXPECT_EQ(copy->type(), own[i].type());
      ASSERT_EQ(copy->bytes(), own[i].bytes());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(copy->rows()) % Buffer::alignment, 0u);
      EXPECT_EQ(std::memcmp(copy->rows(), own[i].rows(), own[i].bytes()), 0) << i;
    }
}

TEST(Weights, Q8ProductsStayWithinTheStatedError) {
  ThreadPool threads(1);
  constexpr int64_t out = 40, in = 256, tokens = 30;  // many: with tiles these are bf16 numbers
  const std::vector<float> rows = random_numbers(out * in, 5, 0.05);
  const std::vector<float> inputs = random_numbers(tokens * in, 6, 1.0);
  const Weights q8 = Weights::quantized(rows, out, in);
  Tensor<float> y({tokens, out});
  matmul(q8, View<const float>(inputs.data(), {tokens, in}), y.view(), {threads});
  const auto half_step = [](const float* block) {
    float largest = 0;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(block[i]));
    return double(largest) / 127 * (1 + 0x1p-10) / 2;
  };
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t o = 0; o < out; ++o) {
      double truth = 0, allowed = 0;
      for (int64_t i = 0; i < in; ++i) {
        const double w = rows[size_t(o * in + i)], x = inputs[size_t(t * in + i)];
        const double dw = half_step(&rows[size_t(o * in + i / 32 * 32)]);
        const double dx = half_step(&inputs[size_t(t * in + i / 32 * 32)]);
        truth += w * x;
        allowed += std::abs(w) * dx + std::abs(x) * dw + dw * dx;
      }
      EXPECT_NEAR(y.view()(t, o), truth, allowed);
    }
}

TEST(WeightsErrors, AreNamed) {
  const std::vector<float> rows(12, 1.0f);
  EXPECT_FAULT(Weights::copied(WeightType::f16, rows, 3, 5), Fault::argument,
               "weights: expected 15 for a matrix (3, 5), found 12");
  EXPECT_FAULT(Weights::quantized(rows, 0, 5), Fault::argument,
               "expected (out, in) of at least 1 each, found (0, 5)");
  EXPECT_FAULT(Weights::view(WeightType::q8, rows.data(), 3, 4), Fault::argument, "found q8");
  EXPECT_FAULT(Weights::view(WeightType::f32, nullptr, 3, 4), Fault::argument, "found no memory");
  EXPECT_FAULT(Weights::view(WeightType::f32, reinterpret_cast<const char*>(rows.data()) + 2, 1, 4),
               Fault::argument, "expected f32 rows aligned to 4 bytes");
  EXPECT_FAULT(Weights::from_gguf(WeightType::q8, std::vector<std::byte>(34), 1, 33),
               Fault::argument, "expected rows of a multiple of 32, found 33");
  EXPECT_FAULT(Weights::from_gguf(WeightType::q8, std::vector<std::byte>(33), 1, 32),
               Fault::argument, "q8 bytes: expected 34 for a matrix (1, 32), found 33");
  EXPECT_FAULT(Weights::from_gguf(WeightType::q4_k, std::vector<std::byte>(144), 1, 128),
               Fault::argument, "q4_k weights: expected rows of a multiple of 256, found 128");
  EXPECT_FAULT(Weights::from_gguf(WeightType::q6_k, std::vector<std::byte>(420), 3, 256),
               Fault::argument, "q6_k bytes: expected 630 for a matrix (3, 256), found 420");
  const std::vector<float> nan(32, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FAULT(Weights::quantized(nan, 1, 32), Fault::argument, "expected finite numbers");
  EXPECT_FAULT(Weights::quantized(std::vector<float>(32, 1e9f), 1, 32), Fault::argument,
               "expected at most 127 * 65504, found 1e+09 in row 0");
}

TEST(MatmulErrors, AreNamed) {
  ThreadPool threads(1);
  const Weights w = Weights::copied(WeightType::f32, std::vector<float>(15, 1.0f), 3, 5);
  Tensor<float> x({2, 5}), y({2, 3}), wrong({2, 4});
  EXPECT_FAULT(matmul(w, wrong.view(), y.view(), {threads}), Fault::argument,
               "x: expected shape (2, 5), found (2, 4)");
  EXPECT_FAULT(matmul(w, x.view(), wrong.view(), {threads}), Fault::argument,
               "y: expected shape (2, 3), found (2, 4)");
  EXPECT_FAULT(matmul(w, Tensor<float>({5}).view(), y.view(), {threads}), Fault::argument,
               "x: expected (tokens, channels), found (5)");
  View<float> apart = y.view();
  apart.stride[1] = 2;
  EXPECT_FAULT(matmul(w, x.view(), apart, {threads}), Fault::argument,
               "y: expected contiguous channels, found a stride of 2");
}

}  // namespace
}  // namespace deltasane::kernel
