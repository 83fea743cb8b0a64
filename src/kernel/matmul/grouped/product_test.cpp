#include "kernel/matmul/grouped/product.h"

#include "kernel/activation/cuda_definition.h"
#include "kernel/matmul/quantized_cuda/fixture_blocks.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

class GpuGroupedProducts : public GpuTest {
 protected:
  struct Case {
    int64_t columns, inner;
    std::optional<Activation> activation;
    bool is_float = false, adds = false;
    WeightType type = WeightType::bf16;  // of b; quantized, it has whole blocks of inputs
    Numbers<float> a{}, b{}, before{};

    template <class T>
    Numbers<T> definition(int64_t rows) const {
      Numbers<T> out;
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          T sum = 0;
          for (int64_t l = 0; l < inner; ++l)
            sum += T(a[size_t(i * inner + l)]) * T(b[size_t(j * inner + l)]);
          sum = activation ? reference::activate(*activation, sum) : sum;
          out.push_back(adds ? T(before[out.size()]) + sum : sum);
        }
      return out;
    }
  };

  // A quantized matrix is the bf16 matrix that its numbers round to.
  GpuMatrix<bf16> matrix_of(Case& one, uint64_t stream) {
    if (!is_quantized(one.type)) {
      one.b = random_numbers<bf16>(one.columns * one.inner, 0.1, stream);
      given_.push_back(upload<bf16>(one.b));
      return given_.back().data();
    }
    const kernel::Weights weights =
        MatmulProblem({one.type, 1, one.columns, one.inner}, stream).weights;
    one.inner = weights.in();
    for (int64_t i = 0; i < one.columns; ++i)
      for (int64_t j = 0; j < one.inner; ++j) one.b.push_back(float(bf16(weights.at(i, j))));
    blocks_.push_back(blocks_of(weights, gpu()));
    return {one.type, blocks_.back().data()};
  }

  enum class Tiles { of_16_rows, tall };
  void expect_the_definition(int64_t rows, std::vector<Case> cases,
                             Tiles tiles = Tiles::of_16_rows) {
    GroupedProducts op{.rows = rows, .overlaps = rows == 16};
    std::vector<GpuTensor<bf16>> out;
    std::vector<GpuTensor<float>> float_out;
    uint64_t stream = 40;
    for (Case& one : cases) {
      GroupedProducts::One product{nullptr, matrix_of(one, stream + 1), one.columns, one.inner};
      one.a = random_numbers<bf16>(rows * one.inner, 1, stream);
      given_.push_back(upload<bf16>(one.a));
      product.a = given_.back().data();
      stream += 2;
      if (one.is_float) {
        one.before = random_numbers<float>(rows * one.columns, 1, stream++);
        float_out.push_back(one.adds ? upload<float>(one.before)
                                     : poisoned<float>(rows * one.columns));
        product.float_out = float_out.back().data(), product.add = one.adds;
      } else {
        out.push_back(poisoned<bf16>(rows * one.columns));
        product.out = out.back().data();
      }
      product.activation = one.activation;
      op.add(product);
    }
    if (tiles == Tiles::tall)
      multiply_tall(op, 1, gpu());
    else
      multiply_grouped(op, gpu());
    size_t at = 0, float_at = 0;
    for (const Case& one : cases) {
      SCOPED_TRACE(cat(rows, " rows, ", one.columns, " columns, ", one.inner, " inputs of ",
                       name_of(one.type)));
      const Numbers<float> plain = one.definition<float>(rows);
      const Numbers<double> truth = one.definition<double>(rows);
      if (one.is_float)
        expect_close("product", float_out[float_at++], plain, truth);
      else
        expect_close("product", out[at++], plain, truth);
    }
    given_.clear(), blocks_.clear();
  }

 private:
  std::vector<GpuTensor<bf16>> given_;
  std::vector<GpuTensor<std::byte>> blocks_;
};

TEST_F(GpuGroupedProducts, AreTheDefinition) {
  for (const int64_t rows : {1, 16, 17, 45, 350})
    expect_the_definition(rows, {{64, 320, Activation::tanh},
                                 {32, 1088, std::nullopt, true, rows == 17},
                                 {96, 256, Activation::sigmoid},
                                 {288, 160, Activation::squared_relu}});
}

TEST_F(GpuGroupedProducts, OfTallTilesAreTheDefinition) {
  for (const int64_t rows : {1, 17, 32, 33, 64, 70})
    expect_the_definition(rows,
                          {{64, 320, Activation::tanh},
                           {32, 2080, std::nullopt, true, rows == 17},
                           {96, 256, Activation::sigmoid},
                           {160, 64, std::nullopt},
                           {32, 1024, std::nullopt, true},
                           {64, 32, std::nullopt},
                           {288, 160, Activation::squared_relu}},
                          Tiles::tall);
}

// Each of them has its share of the inputs.
TEST_F(GpuGroupedProducts, OfTallTilesAreInParts) {
  for (const int64_t rows : {17, 64})
    for (const int splits : {2, 3, 4}) {
      SCOPED_TRACE(cat(rows, " rows in ", splits, " parts"));
      constexpr int64_t columns = 96, inner = 1120;
      const auto a = random_numbers<bf16>(rows * inner, 1, 1);
      const auto b = random_numbers<bf16>(columns * inner, 0.1, 2);
      const auto a_there = upload<bf16>(a), b_there = upload<bf16>(b);
      auto parts = poisoned<float>(splits * rows * columns);
      GroupedProducts op{.rows = rows};
      op.add({a_there.data(), b_there.data(), columns, inner, nullptr, parts.data()});
      multiply_tall(op, splits, gpu());
      const auto definition = [&]<class T>() {
        Numbers<T> all;
        for (int64_t p = 0; p < splits; ++p)
          for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) {
              T sum = 0;
              for (int64_t l = inner / 32 * p / splits * 32; l < inner / 32 * (p + 1) / splits * 32; ++l)
                sum += T(a[size_t(i * inner + l)]) * T(b[size_t(j * inner + l)]);
              all.push_back(sum);
            }
        return all;
      };
      expect_close("parts", parts, definition.operator()<float>(), definition.operator()<double>());
    }
}

// Narrow tiles, and with more columns wide ones, on GPUs of few and of many multiprocessors.
TEST_F(GpuGroupedProducts, OfQuantizedMatricesAreTheDefinition) {
  for (const WeightType type : weight_types) {
    if (!is_quantized(type)) continue;
    for (int64_t rows = 1; rows <= 16; ++rows)
      expect_the_definition(rows, {{64, 320, Activation::tanh, false, false, type},
                                   {32, 1088, std::nullopt, true, rows % 2 == 1, type},
                                   {288, 160, Activation::squared_relu, false, false, type}});
    for (const int64_t rows : {3, 17, 64}) {
      expect_the_definition(rows, {{640, 288, std::nullopt, true, true, type}});
      expect_the_definition(rows, {{3200, 32, Activation::sigmoid, false, false, type}});
    }
    expect_the_definition(9, {{3200, 256, std::nullopt, true, false, type}});
  }
}

TEST_F(GpuGroupedProducts, MixTypesInOneLaunch) {
  for (const int64_t rows : {4, 16})
    expect_the_definition(rows, {{64, 512, std::nullopt, false, false, WeightType::q4_k},
                                 {96, 512, Activation::tanh, false, false, WeightType::q6_k},
                                 {32, 512, std::nullopt},
                                 {320, 96, std::nullopt, true, true, WeightType::q8}});
}

}  // namespace
}  // namespace deltasane::kernel::cuda
