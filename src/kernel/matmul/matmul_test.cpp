#include "kernel/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernel/isa_dispatch.h"
#include "kernel/matmul/check.h"
#include "kernel/matmul/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

std::vector<Isa> usable_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : built_isas)
    if (usable(isa)) isas.push_back(isa);
  return isas;
}

class Matmul : public testing::TestWithParam<WeightType> {};

TEST_P(Matmul, IsAsCloseToTheTruthAsPlainArithmetic) {
  ThreadPool threads(3);
  const std::vector<Isa> isas = usable_isas();
  uint64_t seed = 1;
  for (const MatmulShape& shape : matmul_cases(GetParam()))
    for (const std::string& wrong : check_matmul(shape, seed++, threads, isas))
      ADD_FAILURE() << wrong;
}

TEST_P(Matmul, DoesNotDependOnTheNumberOfThreads) {
  for (const int64_t tokens : {1, 5, 12, 13, 200}) {
    const MatmulProblem problem({GetParam(), tokens, 1100, 600}, 5);
    std::vector<Tensor<float>> results;
    for (const int count : {1, 2, 3, 8}) {
      ThreadPool threads(count);
      results.push_back(problem.y.clone());
      matmul(problem.weights, problem.x.view(), results.back().view(), {threads});
    }
    for (const Tensor<float>& y : results)
      EXPECT_EQ(std::memcmp(y.data(), results[0].data(), size_t(y.elements()) * 4), 0) << tokens;
  }
}

// Which tokens are computed together changes nothing, among few and among many tokens.
TEST_P(Matmul, ATokenDoesNotDependOnTheOthers) {
  ThreadPool threads(2);
  const int64_t many = 2 * matmul_few_tokens;
  const MatmulProblem problem({GetParam(), many, 75, 300}, 6);
  for (const Isa isa : usable_isas()) {
    const auto result = [&](int64_t first, int64_t count) {
      Tensor<float> y({count, 75});
      matmul(problem.weights, problem.x.view().slice(0, first, count), y.view(), {threads, isa});
      return y;
    };
    const Tensor<float> few = result(0, matmul_few_tokens), all = result(0, many);
    for (int64_t t = 0; t < matmul_few_tokens; ++t)
      for (const int64_t count : {2, 3, 6})
        if (t + count <= matmul_few_tokens) {
          EXPECT_EQ(std::memcmp(result(t, count).data(), few.data() + t * 75, 75 * 4), 0)
              << name_of(isa) << " token " << t << " of " << count;
        }
    const Tensor<float> part = result(3, many - 5);
    EXPECT_EQ(std::memcmp(part.data(), all.data() + 3 * 75, size_t(many - 5) * 75 * 4), 0);
    if (GetParam() == WeightType::q8 && !multiplies_bf16(WeightType::q8, many, isa)) {
      EXPECT_EQ(std::memcmp(few.data(), all.data(), size_t(few.elements()) * 4), 0);
      EXPECT_EQ(std::memcmp(result(5, 1).data(), all.data() + 5 * 75, 75 * 4), 0);
    }
  }
}

TEST_P(Matmul, OneTokenIsAddedUpAsOneAmongFew) {
  ThreadPool threads(2);
  const MatmulProblem problem({GetParam(), matmul_few_tokens, 75, 300}, 6);
  for (const Isa isa : usable_isas()) {
    const auto result = [&](int64_t first, int64_t count) {
      Tensor<float> y({count, 75});
      matmul_few_alike(problem.weights, problem.x.view().slice(0, first, count), y.view(), {threads, isa});
      return y;
    };
    const Tensor<float> all = result(0, matmul_few_tokens);
    for (int64_t t = 0; t < matmul_few_tokens; ++t)
      for (const int64_t count : {1, 2, 5})
        if (t + count <= matmul_few_tokens) {
          EXPECT_EQ(std::memcmp(result(t, count).data(), all.data() + t * 75, size_t(count) * 75 * 4), 0)
              << name_of(isa) << " token " << t << " of " << count;
        }
  }
}

TEST_P(Matmul, WritesOnlyItsPartOfY) {
  ThreadPool threads(2);
  for (const Isa isa : usable_isas())
    for (const int64_t tokens : {1, 3, 21}) {
      const MatmulProblem problem({GetParam(), tokens, 29, 70}, 7);
      Tensor<float> whole({tokens + 2, 40});
      whole.fill(7.0f);
      const View<float> y = whole.view().slice(0, 1, tokens).slice(1, 5, 29);
      matmul(problem.weights, problem.x.view(), y, {threads, isa});
      Tensor<float> packed({tokens, 29});
      matmul(problem.weights, problem.x.view(), packed.view(), {threads, isa});
      for (int64_t t = 0; t < tokens + 2; ++t)
        for (int64_t o = 0; o < 40; ++o) {
          const bool inside = t >= 1 && t <= tokens && o >= 5 && o < 34;
          EXPECT_EQ(whole.view()(t, o), inside ? packed.view()(t - 1, o - 5) : 7.0f);
        }
    }
}

TEST_P(Matmul, LongRowsAndManyPasses) {
  ThreadPool threads(2);
  const Isa best[] = {best_isa()};
  for (const MatmulShape& shape : {MatmulShape{GetParam(), 2, 9, 5000},
                                   {GetParam(), 1100, 7, 40},
                                   {GetParam(), 33, 3, 5000},
                                   {GetParam(), 70, 1100, 520}})
    for (const std::string& wrong : check_matmul(shape, 9, threads, best)) ADD_FAILURE() << wrong;
}

TEST_P(Matmul, ANanGoesToItsTokenOnly) {
  ThreadPool threads(2);
  for (const Isa isa : usable_isas())
    for (const int64_t tokens : {2, 30}) {
      MatmulProblem problem({GetParam(), tokens, 20, 70}, 8);
      problem.x.view()(1, 69) = std::numeric_limits<float>::quiet_NaN();
      matmul(problem.weights, problem.x.view(), problem.y.view(), {threads, isa});
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t o = 0; o < 20; ++o)
          EXPECT_EQ(std::isnan(problem.y.view()(t, o)), t == 1) << name_of(isa) << " " << t;
    }
}

// Inputs that would round to an infinite bf16 number, and infinite ones, which must not become NaN.
TEST(MatmulOfExtremes, LargestAndInfiniteInputs) {
  ThreadPool threads(2);
  constexpr int64_t out = 9, in = 70;
  const std::vector<float> rows(size_t(out * in), 0.25f);
  constexpr float large = 0x1.ff8p127f;
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16})
    for (const Isa isa : usable_isas())
      for (const int64_t tokens : {2, 30})
        for (const float x_of_one : {large, -large, std::numeric_limits<float>::infinity()}) {
          Tensor<float> x({tokens, in}), y({tokens, out});
          x.fill(1.0f);
          for (int64_t i = 0; i < in; ++i) x.view()(1, i) = i == 69 ? x_of_one : 0.0f;
          matmul(Weights::copied(type, rows, out, in), x.view(), y.view(), {threads, isa});
          for (int64_t t = 0; t < tokens; ++t)
            for (int64_t o = 0; o < out; ++o)
              EXPECT_EQ(y.view()(t, o), 0.25f * (t == 1 ? x_of_one : float(in)))
                  << name_of(type) << " " << name_of(isa) << " " << t;
        }
}

// The bound that matmul.h states, on top of that of any sum of floats.
TEST(MatmulInPairs, StaysWithinTheStatedError) {
  ThreadPool threads(1);
  for (const WeightType type : {WeightType::bf16, WeightType::f16}) {
    const MatmulProblem problem({type, 30, 20, 300}, 12);
    const View<const float> x = problem.x.view();
    for (const Isa isa : usable_isas()) {
      Tensor<float> y({30, 20});
      matmul(problem.weights, x, y.view(), {threads, isa});
      const double part = multiplies_bf16_pairs(type, 30, isa) ? 0x1p-17 : 0;
      for (int64_t t = 0; t < 30; ++t)
        for (int64_t o = 0; o < 20; ++o) {
          double truth = 0, size = 0;
          for (int64_t i = 0; i < 300; ++i) {
            const double product = double(problem.weights.at(o, i)) * double(x(t, i));
            truth += product, size += std::abs(product);
          }
          EXPECT_NEAR(y.view()(t, o), truth, size * (part + 300 * 0x1p-23))
              << name_of(type) << " " << name_of(isa);
        }
    }
  }
}

// Inputs of 8 bits, or bf16 numbers: the same bound for both, on top of that of any sum of floats.
TEST(MatmulOfQuantized, StaysWithinTheErrorOfEightBits) {
  ThreadPool threads(1);
  for (const WeightType type : {WeightType::q8, WeightType::q6_k, WeightType::q5_k,
                                WeightType::q4_k, WeightType::q4})
    for (const int64_t tokens : {2, 30}) {
      const MatmulProblem problem({type, tokens, 20, 512}, 15);
      const View<const float> x = problem.x.view();
      for (const Isa isa : usable_isas()) {
        Tensor<float> y({tokens, 20});
        matmul(problem.weights, x, y.view(), {threads, isa});
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t o = 0; o < 20; ++o) {
            double truth = 0, allowed = 0, size = 0;
            for (int64_t i = 0; i < 512; ++i) {
              const double w = problem.weights.at(o, i);
              double largest = 0;
              for (int64_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j)
                largest = std::max(largest, std::abs(double(x(t, j))));
              truth += w * double(x(t, i)), size += std::abs(w) * largest;
              static_assert(0x1p-8 + 0x1p-18 < 1.0 / 254);
              allowed += multiplies_bf16(type, tokens, isa)
                             ? std::abs(w * double(x(t, i))) * (0x1p-8 + 0x1p-18)
                             : std::abs(w) * largest / 254;
            }
            EXPECT_NEAR(y.view()(t, o), truth, allowed + size * 512 * 0x1p-23)
                << name_of(type) << " " << name_of(isa);
          }
      }
    }
}

TEST(MatmulOfQuantized, IsRoundedToBf16WithTilesOnly) {
  EXPECT_TRUE(multiplies_bf16(WeightType::q4_k, matmul_few_tokens + 1, Isa::avx512_amx));
  EXPECT_FALSE(multiplies_bf16(WeightType::q8, matmul_few_tokens, Isa::avx512_amx));
  EXPECT_FALSE(multiplies_bf16(WeightType::bf16, 100, Isa::avx512_amx));
  EXPECT_FALSE(multiplies_bf16(WeightType::q8, 100, Isa::avx512_dot));
  EXPECT_FALSE(multiplies_bf16(WeightType::q8, 100, Isa::neon_mm));
}

TEST(MatmulInPairs, ANumberIsTheSumOfTwo) {
  EXPECT_TRUE(multiplies_bf16_pairs(WeightType::bf16, matmul_few_tokens + 1, Isa::neon_mm));
  EXPECT_FALSE(multiplies_bf16_pairs(WeightType::bf16, matmul_few_tokens, Isa::neon_mm));
  EXPECT_FALSE(multiplies_bf16_pairs(WeightType::f16, 100, Isa::neon_mm));
  EXPECT_FALSE(multiplies_bf16_pairs(WeightType::bf16, 100, Isa::avx512));
  EXPECT_TRUE(multiplies_bf16_pairs(WeightType::f16, matmul_few_tokens + 1, Isa::avx512_amx));
  EXPECT_FALSE(multiplies_bf16_pairs(WeightType::f32, 100, Isa::avx512_amx));
  std::vector<float> numbers = {0.0f, 1.0f, -3.5f, 1 + 0x1p-15f, 0x1.ff8p127f, -0x1.ff8p127f};
  const MatmulProblem random({WeightType::f32, 1, 1, 5000}, 13);
  for (const float x : random.x.span()) numbers.push_back(x);
  const auto count = int64_t(numbers.size());
  const Tensor<float> pairs = reference::bf16_pairs(View<const float>(numbers.data(), {1, count}));
  double worst = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = numbers[size_t(i)], error = std::abs(double(pairs[i]) - x);
    EXPECT_LE(error, 0x1p-17 * std::abs(x)) << x;
    if (x != 0) worst = std::max(worst, error / std::abs(x));
  }
  EXPECT_GT(worst, 0x1p-18);  // the bound is not far from what happens
  EXPECT_EQ(pairs[3], 1 + 0x1p-15f);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(reference::bf16_pairs(View<const float>(&infinity, {1, 1}))[0], infinity);
}

// One token of f16 weights, where x becomes sums of two f16 numbers: inputs of any size.
TEST(MatmulInHalves, StaysWithinTheStatedErrorAtAnyScale) {
  ThreadPool threads(1);
  for (const float size : {1.0f, 1e-30f, 1e-42f, 1e30f}) {
    MatmulProblem problem({WeightType::f16, 1, 20, 320}, 14);
    for (float& x : problem.x.span()) x *= size;
    float largest = 0;
    for (const float x : problem.x.span()) largest = std::max(largest, std::abs(x));
    for (const Isa isa : usable_isas()) {
      Tensor<float> y({1, 20});
      matmul(problem.weights, problem.x.view(), y.view(), {threads, isa});
      for (int64_t o = 0; o < 20; ++o) {
        double truth = 0, products = 0, weights = 0;
        for (int64_t i = 0; i < 320; ++i) {
          const double w = problem.weights.at(o, i), product = w * double(problem.x[i]);
          truth += product, products += std::abs(product), weights += std::abs(w);
        }
        const double rounding = 0x1p-22 * products + 0x1p-38 * weights * double(largest);
        EXPECT_NEAR(y[o], truth, rounding + 320 * (0x1p-23 * products + 0x1p-149)) << name_of(isa);
      }
    }
  }
}

TEST(MatmulInHalves, InfiniteInputsAndWeightsStayInfinite) {
  ThreadPool threads(1);
  constexpr int64_t out = 3, in = 64;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> rows(size_t(out * in), 0.25f);
  rows[in] = infinity;
  const Weights weights = Weights::copied(WeightType::f16, rows, out, in);
  for (const Isa isa : usable_isas())
    for (const float x_of_one : {1.0f, 0x1.ff8p127f, -infinity}) {
      Tensor<float> x({1, in}), y({1, out});
      x.fill(0.0f);
      x[0] = x_of_one;
      matmul(weights, x.view(), y.view(), {threads, isa});
      EXPECT_EQ(y[0], 0.25f * x_of_one) << name_of(isa);
      EXPECT_EQ(y[1], x_of_one > 0 ? infinity : -infinity) << name_of(isa);
    }
}

TEST_P(Matmul, NoTokensAreNoWork) {
  ThreadPool threads(1);
  const MatmulProblem problem({GetParam(), 1, 5, 5}, 8);
  matmul(problem.weights, View<const float>(nullptr, {0, 5}), View<float>(nullptr, {0, 5}),
         {threads});
}

INSTANTIATE_TEST_SUITE_P(Types, Matmul,
                         testing::Values(WeightType::f32, WeightType::f16, WeightType::bf16,
                                         WeightType::q8, WeightType::q6_k, WeightType::q5_k,
                                         WeightType::q4_k, WeightType::q4),
                         [](const auto& type) { return name_of(type.param); });

// Rows of a mapped file may start at any element.
TEST(MatmulInPlace, RowsOfAnyAlignment) {
  ThreadPool threads(2);
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16})
    for (const Isa isa : usable_isas())
      for (const int64_t tokens : {1, 9, 20}) {
        const MatmulProblem problem({type, tokens, 29, 45}, 11);
        Tensor<float> aligned({tokens, 29}), shifted({tokens, 29});
        matmul(problem.weights, problem.x.view(), aligned.view(), {threads, isa});
        Buffer memory(problem.weights.bytes() + 64);
        for (const int64_t shift : {element_bytes(type), 3 * element_bytes(type)}) {
          std::memcpy(memory.data() + shift, problem.weights.rows(), problem.weights.bytes());
          const Weights view = Weights::view(type, memory.data() + shift, 29, 45);
          matmul(view, problem.x.view(), shifted.view(), {threads, isa});
          EXPECT_EQ(std::memcmp(aligned.data(), shifted.data(), size_t(tokens) * 29 * 4), 0);
        }
      }
}

TEST(MatmulAll, RowsMayBeComputed) {
  for (const int count : {1, 5}) {
    ThreadPool threads(count);
    for (const Isa isa : usable_isas())
      for (const WeightType type : {WeightType::f32, WeightType::q8, WeightType::q4_k, WeightType::bf16})
        for (const int64_t tokens : {13, 75, 1030}) {
          const MatmulProblem problem({type, tokens, 20, 70}, 4);
          const int64_t in = problem.shape.in;
          Tensor<float> there({tokens, 20}), computed({tokens, 20}), other({tokens, 20});
          matmul(problem.weights, problem.x.view(), there.view(), {threads, isa});
          const auto row = [&](int64_t t, float* to) { std::copy_n(problem.x.view().at(t), in, to); };
          const Tensor<float> shape_only({tokens, in});
          const kernel::Matmul products[] = {
              {problem.weights, shape_only.view(), computed.view(), Store::overwrite, {}, row},
              {problem.weights, problem.x.view(), other.view()}};
          matmul_all(products, {threads, isa});
          for (const Tensor<float>* y : {&computed, &other})
            EXPECT_EQ(std::memcmp(there.data(), y->data(), size_t(there.elements()) * 4), 0)
                << name_of(type) << " " << name_of(isa) << " " << tokens;
        }
  }
}

void expect_bits_of_products_alone(std::initializer_list<int64_t> all_tokens) {
  std::vector<MatmulProblem> problems;
  for (const int64_t tokens : all_tokens)
    for (const WeightType type :
         {WeightType::f32, WeightType::q8, WeightType::f16, WeightType::bf16, WeightType::q4_k,
          WeightType::q6_k})
      for (const Store store : {Store::overwrite, Store::add})
        problems.emplace_back(MatmulShape{type, tokens, 10 + 40 * tokens, 70, store}, tokens + 1);
  for (const Isa isa : usable_isas())
    for (const int count : {1, 3, 5}) {
      ThreadPool threads(count);
      std::vector<Tensor<float>> together;
      for (const MatmulProblem& problem : problems) together.push_back(problem.y.clone());
      std::vector<kernel::Matmul> products;
      for (size_t i = 0; i < problems.size(); ++i)
        products.push_back({problems[i].weights, problems[i].x.view(), together[i].view(),
                            problems[i].shape.store});
      matmul_all(products, {threads, isa});
      for (size_t i = 0; i < problems.size(); ++i) {
        Tensor<float> alone = problems[i].y.clone();
        matmul(problems[i].weights, problems[i].x.view(), alone.view(), {threads, isa},
               problems[i].shape.store);
        EXPECT_EQ(std::memcmp(alone.data(), together[i].data(), size_t(alone.elements()) * 4), 0)
            << name_of(isa) << " product " << i;
      }
    }
}

// The activation of whole pieces is that of y.
TEST(MatmulAll, ActivationsFollow) {
  for (const int count : {1, 2, 5}) {
    ThreadPool threads(count);
    for (const Isa isa : usable_isas())
      for (const WeightType type : {WeightType::f32, WeightType::q8, WeightType::q4_k, WeightType::f16})
        for (const int64_t tokens : {3, 40, 130}) {
          const MatmulProblem problem({type, tokens, 75, 70}, 4);
          for (const Activation activation :
               {Activation::tanh, Activation::sigmoid, Activation::squared_relu}) {
            Tensor<float> apart({tokens, 75}), other = apart.clone(), together = apart.clone();
            matmul(problem.weights, problem.x.view(), apart.view(), {threads, isa});
            activate(activation, apart.view(), {threads, isa});
            const kernel::Matmul products[] = {
                {problem.weights, problem.x.view(), together.view(), Store::overwrite, activation},
                {problem.weights, problem.x.view(), other.view()}};
            matmul_all(products, {threads, isa});
            EXPECT_EQ(std::memcmp(apart.data(), together.data(), size_t(apart.elements()) * 4), 0)
                << name_of(type) << " " << name_of(isa) << " " << tokens;
            EXPECT_NE(std::memcmp(apart.data(), other.data(), size_t(apart.elements()) * 4), 0);
          }
        }
  }
}

TEST(MatmulAll, EachProductGivesTheBitsItGivesAlone) {
  expect_bits_of_products_alone({1, 3, 12, 13, 40});
  expect_bits_of_products_alone({13, 70});  // on some threads, these are run together
  ThreadPool threads(1);
  matmul_all({}, {threads});
}

// Small integers have exact sums: every type, instruction set and path gives the same numbers.
TEST(MatmulOfIntegers, IsExact) {
  ThreadPool threads(2);
  constexpr int64_t out = 53, in = 160;
  std::vector<float> rows(size_t(out * in));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = float(int(i * 7919 % 255) - 127);
  for (int64_t block = 0; block < out * in; block += 32) rows[size_t(block)] = 127;  // scale 1
  for (const WeightType type : {WeightType::f32, WeightType::f16, WeightType::bf16, WeightType::q8})
    for (const Isa isa : usable_isas())
      for (const int64_t tokens : {1, 4, 40}) {
        Tensor<float> x({tokens, in}), y({tokens, out});
        for (int64_t i = 0; i < x.elements(); ++i) x[i] = float(i * 104729 % 255 - 127);
        for (int64_t i = 0; i < x.elements(); i += 32) x[i] = -127;
        matmul(Weights::copied(type, rows, out, in), x.view(), y.view(), {threads, isa});
        for (int64_t t = 0; t < tokens; ++t)
          for (int64_t o = 0; o < out; ++o) {
            int64_t sum = 0;
            for (int64_t i = 0; i < in; ++i)
              sum += int64_t(x.view()(t, i)) * int64_t(rows[size_t(o * in + i)]);
            ASSERT_EQ(y.view()(t, o), float(sum)) << name_of(type) << " " << name_of(isa);
          }
      }
}

// Blocks of Q8_0 may hold -128, which has no opposite in 8 bits.
TEST(MatmulOfIntegers, TheSmallestNumberOfEightBits) {
  ThreadPool threads(2);
  constexpr int64_t out = 50, blocks = 3, in = blocks * q8_columns;
  std::vector<std::byte> stored;
  const auto value = [](int64_t row, int64_t column) {
    return row % 3 == 0 ? -128 : int(row * 37 + column * 91) % 256 - 128;
  };
  for (int64_t row = 0; row < out; ++row)
    for (int64_t block = 0; block < blocks; ++block) {
      const uint16_t one = f16(1.0f).bits;
      stored.push_back(std::byte(one & 0xff)), stored.push_back(std::byte(one >> 8));
      for (int64_t i = 0; i < q8_columns; ++i)
        stored.push_back(std::byte(uint8_t(value(row, block * q8_columns + i))));
    }
  const Weights weights = Weights::from_gguf(WeightType::q8, stored, out, in);
  for (const Isa isa : usable_isas())
    for (const int64_t tokens : {1, 4, 41})
      for (const float x_of_all : {127.0f, -127.0f}) {
        Tensor<float> x({tokens, in}), y({tokens, out});
        x.fill(x_of_all);
        matmul(weights, x.view(), y.view(), {threads, isa});
        for (int64_t o = 0; o < out; ++o) {
          int64_t sum = 0;
          for (int64_t i = 0; i < in; ++i) sum += value(o, i);
          ASSERT_EQ(y.view()(tokens - 1, o), float(sum) * x_of_all) << name_of(isa) << " " << o;
        }
      }
}

// Every f16 number: subnormal ones, infinities and NaN too.
TEST(MatmulOfHalves, EveryNumberIsExact) {
  ThreadPool threads(1);
  std::vector<uint16_t> bits(0x10000);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = uint16_t(i);
  const int64_t out = int64_t(bits.size());
  const Weights column = Weights::view(WeightType::f16, bits.data(), out, 1);
  for (const Isa isa : usable_isas())
    for (const int64_t tokens : {1, 3, 16}) {
      Tensor<float> x({tokens, 1}), y({tokens, out});
      x.fill(2.0f);
      matmul(column, x.view(), y.view(), {threads, isa});
      for (int64_t o = 0; o < out; ++o) {
        const float w = float(f16::from_bits(bits[size_t(o)]));
        if (std::isnan(w))
          ASSERT_TRUE(std::isnan(y.view()(tokens - 1, o))) << name_of(isa) << " " << o;
        else
          ASSERT_EQ(y.view()(tokens - 1, o), w * 2) << name_of(isa) << " " << o;
      }
    }
}

}  // namespace
}  // namespace deltasane::kernel
