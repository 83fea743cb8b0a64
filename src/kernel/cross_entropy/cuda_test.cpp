// The loss on a GPU against its definition.
#include "kernel/cross_entropy/cuda.h"

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "kernel/cross_entropy/reference.h"
#include "kernel/cuda/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Real>
class GpuCrossEntropy : public GpuTest {};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuCrossEntropy, Reals);

TYPED_TEST(GpuCrossEntropy, IsTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 64, 1003, 4104, 5003, 65536})
    for (const bool weighted : {true, false}) {
      const int64_t rows = count > 6000 ? 3 : 9;
      const float wrap = 1e-2f;
      const Numbers<float> x = random_numbers<Real>(rows * count, 4, uint64_t(count));
      Random random(7, uint64_t(count));
      Numbers<int32_t> target;
      Numbers<float> weight, losses, plain_loss;
      Numbers<float> plain = x;
      Numbers<double> truth = as<double>(x), true_loss;
      for (int64_t row = 0; row < rows; ++row) {
        target.push_back(int32_t(random.below(uint64_t(count))));
        weight.push_back(!weighted ? 1.0f : row == 1 ? 0.0f : float(random.uniform()));
        const auto part = [&](auto& all) {
          return std::span(all).subspan(size_t(row * count), size_t(count));
        };
        const float w = weight.back();
        plain_loss.push_back(reference::cross_entropy<float>(part(plain), target.back(), w, wrap));
        true_loss.push_back(
            reference::cross_entropy<double>(part(truth), target.back(), w, double(wrap)));
      }
      auto logits = this->template upload<Real>(x);
      const auto t = this->upload(target);
      const auto w = this->template upload<float>(weight);
      GpuTensor<double> loss(this->gpu(), {rows}, "a test");
      loss.upload(Numbers<double>(size_t(rows), NAN), this->gpu());
      CrossEntropy<Real> op{
          rows, count,       logits.data(), t.data(), weighted ? w.data() : nullptr,
          wrap, loss.data(), false};
      const auto expect_losses = [&] {
        const Tensor<double> on_host = loss.on_host(this->gpu());
        losses.assign(on_host.span().begin(), on_host.span().end());
        const Closeness judged = closeness(losses, plain_loss, true_loss);
        EXPECT_TRUE(judged.close) << count << ": " << judged.explanation();
      };
      cross_entropy(op, this->gpu());
      expect_losses();
      EXPECT_EQ(this->download(logits), x) << "logits stay where no gradient is wanted";
      op.with_gradient = true;
      cross_entropy(op, this->gpu());
      expect_losses();
      this->expect_close(cat("gradient of ", count), logits, plain, truth);
    }
}

TYPED_TEST(GpuCrossEntropy, TheFirstOfEqualLogitsIsWrapped) {
  using Real = TypeParam;
  const int64_t count = 5000;
  Numbers<float> x(size_t(count), -30.0f);
  x[4999] = x[4321] = x[4322] = 2;
  auto logits = this->template upload<Real>(x);
  const auto target = this->upload(Numbers<int32_t>{4999});
  GpuTensor<double> loss(this->gpu(), {1}, "a test");
  cross_entropy<Real>({1, count, logits.data(), target.data(), nullptr, 1.0f, loss.data(), true},
                      this->gpu());
  Numbers<float> plain = x;
  Numbers<double> truth = as<double>(x);
  reference::cross_entropy<float>(plain, 4999, 1, 1);
  reference::cross_entropy<double>(truth, 4999, 1, 1);
  this->expect_close("gradient", logits, plain, truth);
}

// A row of -infinity has no largest logit: its loss is not finite, and other rows are not affected.
TYPED_TEST(GpuCrossEntropy, ARowOfMinusInfinityIsNotFiniteAndChangesNoOther) {
  using Real = TypeParam;
  const auto target = this->upload(Numbers<int32_t>{5, 6, 7});
  GpuTensor<double> loss(this->gpu(), {3}, "a test");
  const auto gradient_of = [&](const Numbers<float>& x, int64_t count) {
    auto logits = this->template upload<Real>(x);
    cross_entropy<Real>({3, count, logits.data(), target.data(), nullptr, 1e-2f, loss.data(), true},
                        this->gpu());
    Numbers<float> all = this->download(logits);
    all.erase(all.begin() + count, all.begin() + 2 * count);
    return all;
  };
  for (const int64_t count : {1000, 1003}) {
    Numbers<float> x = random_numbers<Real>(3 * count, 4, 5);
    const Numbers<float> expected = gradient_of(x, count);
    std::fill_n(x.begin() + count, count, -INFINITY);
    EXPECT_EQ(gradient_of(x, count), expected);
    EXPECT_FALSE(std::isfinite(loss.on_host(this->gpu())[1]));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
