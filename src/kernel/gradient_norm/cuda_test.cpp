#include "kernel/gradient_norm/cuda.h"

#include <limits>

#include "kernel/gradient_norm/cuda_test_gradient.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuGradientNorm : public GpuTest {};

TEST_F(GpuGradientNorm, IsThatOfAPlainLoop) {
  for (const int64_t count : {1, 7, 4099, 5'000'003}) {
    const Numbers<float> g = random_numbers<float>(count, 1, 1);
    const auto on = upload<float>(g);
    GradientClip clip(gpu(), count);
    for (const double limit : {0.0, 0.5, 1e9}) {
      clip.measure(on.data(), limit, gpu());
      const GradientNorm found = clip.result();
      const double rounding = double(count) * std::numeric_limits<double>::epsilon();
      EXPECT_NEAR(found.norm, norm_of(g), rounding * norm_of(g));
      EXPECT_FLOAT_EQ(found.scale, clip_of<float>(g, limit));
      EXPECT_EQ(found.finite, 1);
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
