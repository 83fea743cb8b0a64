#include "model/rwkv7/train/initialise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/errors.h"

namespace deltasane::rwkv7 {
namespace {

Parameters smallish() {
  ThreadPool threads(2);
  return initialised(shape_for({3, 64, 16, 100}), std::nullopt, {}, {threads});
}

// The values that were computed from the official code, for 12 layers of 768 channels.
TEST(Initialise, VectorsAreTheOfficialOnes) {
  ThreadPool threads(2);
  Rwkv7Shape shape = shape_for({12, 768, 64, 2});
  EXPECT_EQ(shape.rank_w, 64);
  EXPECT_EQ(shape.rank_v, 32);
  EXPECT_EQ(shape.rank_g, 128);
  shape.feed_forward = shape.rank_w = shape.rank_a = shape.rank_v = shape.rank_g = 1;
  const Parameters model =
      initialised(shape, std::nullopt, {.matrices = InitialMatrices::normal}, {threads});
  EXPECT_NEAR(model.of("blocks.0.att.x_r")[1], 0.735194, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.x_w")[1], 0.997470, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.x_k")[1], 0.990445, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.w0")[1], -7.835967, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.a0")[1], -0.670733, 1e-6);
  EXPECT_NEAR(model.of("blocks.1.att.v0")[1], 0.929478, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.k_k")[1], 0.759870, 1e-6);
  EXPECT_NEAR(model.of("blocks.5.att.x_r")[400], 0.073281, 1e-6);
  EXPECT_NEAR(model.of("blocks.5.att.w0")[400], -4.233613, 1e-6);
  EXPECT_NEAR(model.of("blocks.5.ffn.x_k")[400], 0.072750, 1e-6);
  EXPECT_NEAR(model.of("blocks.0.att.ln_x.weight")[3], 0.175620, 1e-6);
  EXPECT_NEAR(model.of("blocks.5.att.ln_x.weight")[3], 0.615572, 1e-6);
}

// For measurements: as large as orthogonal ones, and none is 0; the same with any threads.
TEST(Initialise, NormalMatricesAreAsLarge) {
  const auto made = [](int count, InitialMatrices matrices) {
    ThreadPool threads(count);
    return initialised(shape_for({2, 128, 64, 100}), std::nullopt, {.matrices = matrices},
                       {threads});
  };
  const auto size = [](const Parameters& model, const char* name) {
    double squares = 0;
    for (const float x : model.of(name)) squares += double(x) * x;
    return std::sqrt(squares / double(model.of(name).size()));
  };
  const Parameters normal = made(3, InitialMatrices::normal),
                   orthogonal = made(1, InitialMatrices::orthogonal);
  for (const char* const name :
       {"blocks.1.att.receptance.weight", "blocks.1.att.key.weight", "blocks.0.ffn.key.weight"})
    EXPECT_NEAR(size(normal, name) / size(orthogonal, name), 1, 0.05) << name;
  EXPECT_EQ(size(orthogonal, "blocks.0.att.output.weight"), 0);
  EXPECT_GT(size(normal, "blocks.0.att.output.weight"), 0);
  EXPECT_EQ(normal.of("blocks.1.att.w0")[5], orthogonal.of("blocks.1.att.w0")[5]);
  const Parameters again = made(1, InitialMatrices::normal);
  EXPECT_TRUE(std::ranges::equal(again.all(), normal.all()));
}

TEST(Initialise, MatricesAreOrthogonal) {
  const Parameters model = smallish();
  const auto expect_orthogonal = [&](const std::string& name, double gain) {
    const Shape shape = model.shape(name);
    const std::span<const float> w = model.of(name);
    const int64_t n = std::min(shape[0], shape[1]), m = std::max(shape[0], shape[1]);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < m; ++k) {
          const bool wide = shape[0] < shape[1];
          sum += double(w[size_t(wide ? i * m + k : k * n + i)]) *
                 double(w[size_t(wide ? j * m + k : k * n + j)]);
        }
        EXPECT_NEAR(sum, i == j ? gain * gain : 0, 1e-6 * gain * gain) << name;
      }
  };
  expect_orthogonal("blocks.1.att.receptance.weight", 1);
  expect_orthogonal("blocks.1.att.key.weight", 0.1);
  expect_orthogonal("blocks.1.ffn.key.weight", 1);
  expect_orthogonal("blocks.1.att.g2", 0.1);
  expect_orthogonal("head.weight", 0.5 * std::sqrt(100.0 / 64));
  for (const char* zero : {"blocks.2.att.output.weight", "blocks.2.ffn.value.weight",
                           "blocks.2.att.w1", "blocks.2.att.g1"})
    for (const float x : model.of(zero)) ASSERT_EQ(x, 0) << zero;
  for (const float x : model.of("emb.weight")) ASSERT_LE(std::abs(x), 1e-4f);
}

TEST(Initialise, ShiftsMoveTheBiasesAndSaneBeginsAtZero) {
  ThreadPool threads(2);
  Rwkv7Shape shape = shape_for({2, 32, 16, 40});
  const Parameters plain = initialised(shape, std::nullopt, {.seed = 3}, {threads});
  shape.sane = true;
  const Parameters model =
      initialised(shape, SaneSettings{3, 16},
                  {.seed = 3, .decay_bias_shift = -12, .rate_bias_shift = -1.5}, {threads});
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_NEAR(model.of("blocks.1.att.w0")[i], plain.of("blocks.1.att.w0")[i] - 12, 1e-5);
    EXPECT_NEAR(model.of("blocks.1.att.a0")[i], plain.of("blocks.1.att.a0")[i] - 1.5, 1e-6);
    EXPECT_EQ(model.of("blocks.1.att.x_tau")[i], 0);
  }
  for (const float x : model.of("blocks.1.att.w_tau")) EXPECT_EQ(x, 0);
  EXPECT_TRUE(std::ranges::equal(model.of("head.weight"), plain.of("head.weight")));
}

TEST(Initialise, ImpossibleShapesAreRefused) {
  EXPECT_FAULT(shape_for({2, 100, 64, 256}), Fault::usage, "100 channels in heads of 64");
}

}  // namespace
}  // namespace deltasane::rwkv7
