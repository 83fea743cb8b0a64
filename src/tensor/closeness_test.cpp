#include "tensor/pooled_closeness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace deltasane {
namespace {

TEST(Closeness, FailsOnOneWrongElementAWrongSignAndWhatIsNotANumber) {
  const std::vector<double> truth{1, -2, 3};
  const std::vector<float> plain{1, -2, 3.0000005f};
  EXPECT_TRUE(closeness(plain, plain, truth).close);
  for (const std::vector<float>& wrong : {std::vector<float>{1, -2, 3.1f},
                                          {1, 2, 3},
                                          {1, -20, 3},
                                          {1, -2, NAN},
                                          {1, INFINITY, 3},
                                          {0, 0, 0}})
    EXPECT_FALSE(closeness(wrong, plain, truth).close) << wrong[0] << ' ' << wrong[1];
}

TEST(Closeness, AllowsTwiceTheErrorOfThePlainReference) {
  const std::vector<double> truth{1};
  const float eps = 1.1920929e-7f;
  const std::vector<float> plain{1 + 100 * eps};
  EXPECT_TRUE(closeness(std::vector<float>{1 - 203 * eps}, plain, truth).close);
  EXPECT_FALSE(closeness(std::vector<float>{1 - 206 * eps}, plain, truth).close);
}

TEST(Closeness, ByRmsAllowsFourTimesTheLargestError) {
  const std::vector<double> truth(100, 1.0);
  const float eps = 1.1920929e-7f;
  std::vector<float> plain(100, 1 + 10 * eps), found = plain;
  const auto close = [&](float largest, float others) {
    std::ranges::fill(found, 1 - others * eps);
    found[7] = 1 - largest * eps;
    return closeness(found, plain, truth, Criterion::rms_error).close;
  };
  EXPECT_TRUE(close(43, 20));
  EXPECT_FALSE(close(46, 20)) << "the largest";
  EXPECT_FALSE(close(30, 26)) << "the rms";
  EXPECT_FALSE(close(NAN, 1));
}

TEST(Closeness, FailsWhereThePlainReferenceIsNan) {
  EXPECT_FALSE(
      closeness(std::vector<float>{1}, std::vector<float>{NAN}, std::vector<double>{1}).close);
}

TEST(PooledCloseness, HasTheBoundOfTheLargestPlainError) {
  const float eps = 1.1920929e-7f;
  const std::vector<double> truth{1};
  const std::vector<float> lucky{1}, unlucky{1 + 100 * eps}, found{1 - 150 * eps};
  PooledCloseness pool;
  pool.add(found, lucky, truth);
  EXPECT_FALSE(pool.result().close);
  pool.add(lucky, unlucky, truth);
  EXPECT_TRUE(pool.result().close);
  pool.add(std::vector<float>{1 - 300 * eps}, lucky, truth);
  EXPECT_FALSE(pool.result().close);
}

// One case that amplifies errors a thousandfold must not hide errors of the others.
TEST(PooledCloseness, MeanRatioHasABoundPerCase) {
  const float eps = 1.1920929e-7f;
  const std::vector<double> truth{1};
  const auto off_by = [&](float units) { return std::vector<float>{1 + units * eps}; };
  const auto mean = [&](float others, float last) {
    PooledCloseness pool;
    pool.add(off_by(50000), off_by(48000), truth);
    for (int i = 0; i < 14; ++i) pool.add(off_by(others), off_by(48), truth);
    pool.add(off_by(last), off_by(48), truth);
    return pool.mean_ratio();  // of 100 units allowed, but for the first
  };
  EXPECT_NEAR(mean(60, 60), 0.595, 1e-3);
  EXPECT_GT(mean(104, 104), 1) << "an error of every case but one";
  EXPECT_LT(mean(40, 3600), 1) << "one case may have an accidentally small plain error";
  EXPECT_GT(mean(40, 4400), 1) << "an error of one case";
  EXPECT_EQ(mean(40, NAN), INFINITY);
}

TEST(PooledCloseness, MeanRatioIsInfiniteWhereThePlainReferenceIsNan) {
  PooledCloseness nothing, broken, needless;
  const std::vector<double> zero{0};
  const std::vector<float> right{0}, not_a_number{NAN}, wrong{1e-30f};
  nothing.add(right, right, zero);
  EXPECT_EQ(nothing.mean_ratio(), 0);
  broken.add(right, not_a_number, zero);
  EXPECT_EQ(broken.mean_ratio(), INFINITY);
  needless.add(wrong, right, zero);
  EXPECT_EQ(needless.mean_ratio(), INFINITY) << "the plain reference has no error here";
}

}  // namespace
}  // namespace deltasane
