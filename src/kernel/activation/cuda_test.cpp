#include "kernel/activation/cuda.h"

#include "kernel/activation/cuda_definition.h"
#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuActivations : public GpuTest {};
TYPED_TEST_SUITE(GpuActivations, Reals);

TYPED_TEST(GpuActivations, AreTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 64, 3001})
    for (const Activation which :
         {Activation::tanh, Activation::sigmoid, Activation::squared_relu}) {
      const Numbers<float> x = random_numbers<Real>(count, 2, 5);
      auto y = this->template upload<Real>(x);
      activate(which, y.data(), count, this->gpu());
      this->expect_close("y", y, activated<float>(which, x), activated<double>(which, x));
      auto apart = this->template upload<Real>(x);  // from an address that is not a multiple of 16
      if (count > 1) activate(which, apart.data() + 1, count - 1, this->gpu());
      Numbers<float> expected = this->download(y), found = this->download(apart);
      if (count == 1) continue;
      EXPECT_EQ(found[0], x[0]);
      expected[0] = found[0];
      EXPECT_EQ(found, expected);
    }
}

TYPED_TEST(GpuActivations, GradientsAreTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 3001})
    for (const Activation which :
         {Activation::tanh, Activation::sigmoid, Activation::squared_relu}) {
      const Numbers<float> y = rounded_to<Real>(activated<float>(which, random_numbers<Real>(count, 2, 5)));
      const Numbers<float> dy = random_numbers<Real>(count, 1, 6);
      const auto definition = [&]<class T>(T) {
        Numbers<T> dx;
        for (size_t i = 0; i < y.size(); ++i) {
          dx.push_back(T(dy[i]) * reference::derivative(which, T(y[i])));
        }
        return dx;
      };
      const auto left = this->template upload<Real>(y);
      auto d = this->template upload<Real>(dy);
      activate_backward(which, left.data(), d.data(), count, this->gpu());
      this->expect_close("dx", d, definition(1.0f), definition(1.0));
    }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
