#include "kernel/rows/cuda.h"

#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuRowSums : public GpuTest {};
TYPED_TEST_SUITE(GpuRowSums, Reals);

TYPED_TEST(GpuRowSums, AddRowsAdds) {
  using Real = TypeParam;
  for (const int64_t count : {517, 1003}) {
    const Numbers<float> from = random_numbers<float>(count, 1, 1), to = random_numbers<Real>(count, 1, 2);
    const auto a = this->template upload<float>(from);
    auto b = this->template upload<Real>(to);
    add_rows(a.data(), b.data(), count, this->gpu());
    Numbers<float> expected;
    for (size_t i = 0; i < from.size(); ++i) expected.push_back(to[i] + from[i]);
    EXPECT_EQ(this->download(b), rounded_to<Real>(expected));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
