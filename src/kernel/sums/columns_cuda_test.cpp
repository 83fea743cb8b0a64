#include "kernel/sums/columns_cuda.h"

#include "kernel/rows/cuda_test_rows.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuColumnSums : public GpuTest {};
TYPED_TEST_SUITE(GpuColumnSums, Reals);

// Of small integers, which are exact: one row, odd numbers, one run of rows and many, groups.
TYPED_TEST(GpuColumnSums, AreExact) {
  using Real = TypeParam;
  struct Sizes {
    int64_t rows, columns, group;
  };
  for (const Sizes& n :
       {Sizes{1, 1, 1}, {7, 3, 1}, {1024, 40, 8}, {1025, 5, 5}, {3001, 65, 1}, {2100, 33, 11}}) {
    Numbers<float> x, expected(size_t(n.columns / n.group), 3.0f);
    for (int64_t i = 0; i < n.rows * n.columns; ++i) {
      x.push_back(float((i * i + i / 7) % 9) - 4);
      expected[size_t(i % n.columns / n.group)] += x.back();
    }
    const auto from = this->template upload<Real>(x);
    auto to = this->template upload<float>(Numbers<float>(expected.size(), 3.0f)),
         scratch = this->template poisoned<float>(column_sums_scratch(n.rows, n.columns));
    column_sums<Real>({n.rows, n.columns, n.group, from.data(), to.data(), scratch.data()},
                      this->gpu());
    EXPECT_EQ(this->download(to), expected) << n.rows << " x " << n.columns;
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
