#include "kernel/matmul/grouped/product.h"

#include "kernel/activation/cuda_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

class GpuGroupedProducts : public GpuTest {
 protected:
  struct Case {
    int64_t columns, inner;
    std::optional<Activation> activation;
    bool is_float = false, adds = false;
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
};

TEST_F(GpuGroupedProducts, AreTheDefinition) {
  for (const int64_t rows : {1, 16, 17, 45, 350}) {
    Case cases[] = {{64, 320, Activation::tanh},
                    {32, 1088, std::nullopt, true, rows == 17},
                    {96, 256, Activation::sigmoid},
                    {288, 160, Activation::squared_relu}};
    GroupedProducts op{.rows = rows, .overlaps = rows == 16};
    std::vector<GpuTensor<bf16>> given, out;
    std::vector<GpuTensor<float>> float_out;
    uint64_t stream = 40;
    for (Case& one : cases) {
      one.a = random_numbers<bf16>(rows * one.inner, 1, stream++);
      one.b = random_numbers<bf16>(one.columns * one.inner, 0.1, stream++);
      given.push_back(upload<bf16>(one.a));
      given.push_back(upload<bf16>(one.b));
      GroupedProducts::One product{given[given.size() - 2].data(), given.back().data(),
                                   one.columns, one.inner};
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
    multiply_grouped(op, gpu());
    size_t at = 0, float_at = 0;
    for (const Case& one : cases) {
      SCOPED_TRACE(cat(rows, " rows, ", one.columns, " columns, ", one.inner, " inputs"));
      const Numbers<float> plain = one.definition<float>(rows);
      const Numbers<double> truth = one.definition<double>(rows);
      if (one.is_float)
        expect_close("product", float_out[float_at++], plain, truth);
      else
        expect_close("product", out[at++], plain, truth);
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
