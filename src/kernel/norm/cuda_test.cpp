#include "kernel/norm/cuda.h"

#include "kernel/norm/cuda_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuLayerNorm : public GpuTest {};
TYPED_TEST_SUITE(GpuLayerNorm, Reals);

TYPED_TEST(GpuLayerNorm, IsTheDefinition) {
  for (const RowBlock& rows : shapes()) {
    const int64_t C = rows.channels;
    const Numbers<float> x = random_numbers<float>(rows.rows() * C, 2, 1, 0.5);
    const Numbers<float> weight = random_numbers<float>(C, 1, 2), bias = random_numbers<float>(C, 1, 3);
    const auto from = this->template upload<float>(x), w = this->template upload<float>(weight),
               b = this->template upload<float>(bias);
    auto y = this->template poisoned<TypeParam>(rows.rows() * C);
    layer_norm<TypeParam>(rows, from.data(), w.data(), b.data(), 1e-5f, y.data(), this->gpu());
    this->expect_close("y", y, normalized_rows<float>(x, weight, bias),
                       normalized_rows<double>(x, weight, bias));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
