// Products of few rows where a block has less shared memory, so that rings of weights are shorter, and
// without bulk copies. Numbers are small integers, so that sums are exact.
#include "emulation/block.h"
#include "kernel/cuda/gpu_test_case.h"
#include "kernel/matmul/few_rows/product.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Weight>
class FewRowsProducts : public GpuTest {
 protected:
  void SetUp() override { emulation::emulated_gpu().shared = 99 * 1024, GpuTest::SetUp(); }
  void TearDown() override { emulation::emulated_gpu() = {}; }

  void check(int64_t rows, int64_t outputs, int64_t columns) {
    const auto small = [](int64_t count, int64_t step) {
      Numbers<float> x;
      for (int64_t i = 0; i < count; ++i) x.push_back(float(i * step % 7 - 3));
      return x;
    };
    const Numbers<float> matrix = small(outputs * columns, 5), x = small(rows * columns, 3);
    const auto matrix_there = this->template upload<Weight>(matrix);
    const auto x_there = this->template upload<float>(x);
    auto out = this->template poisoned<float>(rows * outputs);
    FewRowsProduct<Weight> op;
    op.matrix = matrix_there.data(), op.rows = rows, op.outputs = outputs, op.columns = columns;
    op.input.x = x_there.data(), op.input.step = columns, op.out = out.data();
    few_rows_product(op, this->gpu());
    Numbers<float> expected;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < outputs; ++o) {
        float sum = 0;
        for (int64_t c = 0; c < columns; ++c)
          sum += matrix[size_t(o * columns + c)] * x[size_t(r * columns + c)];
        expected.push_back(sum);
      }
    EXPECT_EQ(this->download(out), expected) << rows << " rows";
  }
};
using Weights = testing::Types<float, bf16>;
TYPED_TEST_SUITE(FewRowsProducts, Weights);

TYPED_TEST(FewRowsProducts, In99KibOfSharedMemory) {
  this->check(1, 400, 2600);
  this->check(1, 9, 17408);
  this->check(2, 1200, 2056);
}

TYPED_TEST(FewRowsProducts, BeforeCompute90) {
  emulation::emulated_gpu().capability = 80;
  this->check(1, 37, 40);
  this->check(1, 400, 2600);
  this->check(2, 1200, 2056);
}

}  // namespace
}  // namespace deltasane::kernel::cuda
