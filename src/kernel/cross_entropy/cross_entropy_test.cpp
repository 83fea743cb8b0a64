#include "kernel/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernel/cross_entropy/reference.h"
#include "kernel/isa_dispatch.h"
#include "support/errors.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

TEST(CrossEntropyDefinition, GradientIsThatOfTheLoss) {
  Random random(4);
  std::vector<double> x(23);
  for (double& value : x) value = 2 * random.normal();
  const double weight = 0.7, wrap = 0.05;
  std::vector<double> gradient = x;
  reference::cross_entropy<double>(gradient, 5, weight, wrap);
  const auto loss = [&](std::vector<double> at) {
    const double most = *std::max_element(at.begin(), at.end());
    return reference::cross_entropy<double>(at, 5, weight, wrap) + weight * wrap * most * most / 2;
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const auto difference = [&](double h) {
      std::vector<double> up = x, down = x;
      up[i] += h, down[i] -= h;
      return (loss(up) - loss(down)) / (2 * h);
    };
    const double whole = difference(1e-3), half = difference(5e-4);
    const double allowed = std::abs(whole - half) / 8 + 8 * 2.3e-16 * 10 / 5e-4 + 1e-11;
    EXPECT_NEAR(gradient[i], half + (half - whole) / 3, allowed) << i;
  }
}

TEST(CrossEntropy, IsTheDefinitionOnEveryInstructionSet) {
  ThreadPool threads(2);
  for (const Isa isa : float_isas)
    for (const int64_t count : {1, 7, 16, 61, 256, 1003}) {
      if (!usable(isa)) continue;
      const int64_t rows = 9;
      Random random(7, uint64_t(count));
      std::vector<float> x(size_t(rows * count)), weight;
      for (float& value : x) value = float(4 * random.normal());
      std::vector<int32_t> target;
      for (int64_t row = 0; row < rows; ++row) {
        target.push_back(int32_t(random.below(uint64_t(count))));
        weight.push_back(row == 3 ? 0.0f : float(random.uniform()));
      }
      std::vector<float> found = x, plain = x, found_loss, plain_loss;
      std::vector<double> truth(x.begin(), x.end()), loss(size_t(rows), NAN), true_loss;
      const float wrap = 1e-2f;
      cross_entropy({{found.data(), {rows, count}}, target, weight, wrap, loss}, {threads, isa});
      for (int64_t row = 0; row < rows; ++row) {
        const auto part = [&](auto& all) {
          return std::span(all).subspan(size_t(row * count), size_t(count));
        };
        const float w = weight[size_t(row)];
        const int32_t t = target[size_t(row)];
        plain_loss.push_back(reference::cross_entropy<float>(part(plain), t, w, wrap));
        true_loss.push_back(reference::cross_entropy<double>(part(truth), t, w, double(wrap)));
        found_loss.push_back(float(loss[size_t(row)]));
      }
      const Closeness gradient = closeness(found, plain, truth);
      EXPECT_TRUE(gradient.close) << name_of(isa) << " " << count << gradient.explanation();
      const Closeness losses = closeness(found_loss, plain_loss, true_loss);
      EXPECT_TRUE(losses.close) << name_of(isa) << " " << count << losses.explanation();
    }
}

TEST(CrossEntropy, RefusesATargetPastTheVocabulary) {
  ThreadPool threads(1);
  std::vector<float> x(5), weight(1, 1.0f);
  std::vector<double> loss(1);
  const int32_t target[] = {5};
  EXPECT_FAULT(cross_entropy({{x.data(), {1, 5}}, target, weight, 0, loss}, {threads}),
               Fault::argument, "target: expected 0 to 4, found 5");
}

}  // namespace
}  // namespace deltasane::kernel
