// Rounded copies, and sums of doubles, on a GPU: both exact.
#include "kernel/rounded/cuda.h"

#include <cmath>
#include <limits>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/sums/cuda.h"

namespace deltasane::kernel {
namespace {

using GpuRounded = GpuTest;
using GpuSums = GpuTest;

TEST_F(GpuRounded, EqualsTheRoundingOfTheHost) {
  for (const int64_t count : {0, 8, 2048, 8 * 777}) {
    Numbers<float> x = random_numbers<float>(count, 3, 1);
    if (count > 8) {
      x[0] = 1.0f + 0x1p-8f, x[1] = 1.0f + 0x3p-8f;  // ties
      x[2] = std::numeric_limits<float>::infinity(), x[3] = -0.0f, x[4] = 3.4e38f, x[5] = 1e-40f;
    }
    const GpuTensor<float> from = upload<float>(x);
    GpuTensor<bf16> to = poisoned<bf16>(count);
    cuda::rounded(from.data(), to.data(), count, gpu());
    const Tensor<bf16> found = to.on_host(gpu());
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(found[i].bits, bf16(x[size_t(i)]).bits) << x[size_t(i)];
  }
}

TEST_F(GpuSums, AccumulateIntoTheDestination) {
  for (const int64_t count : {1, 1023, 1024, 5000}) {
    Tensor<double> values({count});
    double expected = 0.25;
    for (int64_t i = 0; i < count; ++i) {
      values[i] = double(i % 13) - 4;  // whole numbers: exact in any order
      expected += values[i];
    }
    const GpuTensor<double> from(gpu(), values, "a test");
    Tensor<double> sum({1});
    sum[0] = 0.25;
    const GpuTensor<double> start(gpu(), sum, "a test");
    GpuTensor<double> to(gpu(), {1}, "a test");
    copy_on_gpu(to.data(), start.data(), sizeof(double), gpu());
    cuda::add_sum(from.data(), count, to.data(), gpu());
    EXPECT_EQ(to.on_host(gpu())[0], expected);
  }
}

}  // namespace
}  // namespace deltasane::kernel
