#include "kernel/token_shift/token_shift.h"

#include "kernel/rows/row_test_case.h"
#include "kernel/token_shift/reference.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

TEST(TokenShiftDefinition, GradientIsThatOfCentralDifferences) {
  constexpr int64_t time = 4, c = 3;
  Vector<double> u = normal_numbers(time * c, 1, 1), mu = normal_numbers(c, 1, 2);
  const Vector<double> dout = normal_numbers(time * c, 1, 3);
  Vector<double> du(u.size()), dmu(mu.size());
  reference::token_shift_backward<double>(u, mu, dout, du, dmu);
  const auto loss = [&] {
    Vector<double> out(u.size());
    reference::token_shift<double>(u, {}, mu, out);
    return dot(dout, out);
  };
  expect_gradient("u", u, du, loss);
  expect_gradient("mu", mu, dmu, loss);
}

class TokenShiftRows : public RowTest {};

TEST_P(TokenShiftRows, MixesWithTheRowBefore) {
  const int64_t rows = 11, channels = 70;
  const auto u = as<float>(normal_numbers(rows * channels, 1, 1)),
             before = as<float>(normal_numbers(channels, 1, 2));
  const Vector<float> mu0 = as<float>(normal_numbers(channels, 1, 3)), mu1(size_t(channels), 1.0f);
  Vector<float> out0(u.size(), NAN), out1 = out0;
  const float* const mus[] = {mu0.data(), mu1.data()};
  const View<float> outs[] = {{out0.data(), {rows, channels}}, {out1.data(), {rows, channels}}};
  token_shift({{u.data(), {rows, channels}}, before.data(), mus, outs}, cpu());
  for (int64_t t = 0; t < rows; ++t)
    for (int64_t c = 0; c < channels; ++c) {
      const float p = t ? u[size_t((t - 1) * channels + c)] : before[size_t(c)];
      const float x = u[size_t(t * channels + c)];
      EXPECT_NEAR(out0[size_t(t * channels + c)], x + (p - x) * mu0[size_t(c)], 2e-6);
      EXPECT_NEAR(out1[size_t(t * channels + c)], p, 1e-6);
    }
}

TEST_P(TokenShiftRows, IsTheDefinition) {
  const int64_t rows = 11, channels = 70;
  const Vector<double> u = normal_numbers(rows * channels, 1, 1),
                       before = normal_numbers(channels, 1, 2), mu = normal_numbers(channels, 1, 3);
  const auto uf = as<float>(u), before_f = as<float>(before), mu_f = as<float>(mu);
  Vector<float> found(u.size(), NAN), plain = found;
  Vector<double> truth(u.size());
  const float* const mus[] = {mu_f.data()};
  const View<float> outs[] = {{found.data(), {rows, channels}}};
  token_shift({{uf.data(), {rows, channels}}, before_f.data(), mus, outs}, cpu());
  reference::token_shift<float>(uf, before_f, mu_f, plain);
  reference::token_shift<double>(u, before, mu, truth);
  expect_close("out", found, plain, truth);
}

// Small integers: every sum is exact.
TEST_P(TokenShiftRows, GradientGoesToTheRowAndTheOneBefore) {
  const int64_t time = 35, c = 21;
  Random random(2);
  const auto integers = [&](int64_t n) {
    Vector<float> out;
    for (int64_t i = 0; i < n; ++i) out.push_back(float(random.below(9)) - 4);
    return out;
  };
  const Vector<float> u = integers(time * c), mu0 = integers(c), mu1 = integers(c);
  const Vector<float> d0 = integers(time * c), d1 = integers(time * c);
  Vector<float> du(u.size(), NAN), dmu0(size_t(c), 1), dmu1(size_t(c), 2);
  const float* const mu[] = {mu0.data(), mu1.data()};
  const View<const float> dout[] = {{d0.data(), {time, c}}, {d1.data(), {time, c}}};
  float* const dmu[] = {dmu0.data(), dmu1.data()};
  token_shift_backward({{u.data(), {time, c}}, mu, dout, {du.data(), {time, c}}, dmu}, cpu());
  Vector<float> expected(u.size()), sum0(size_t(c), 1), sum1(size_t(c), 2);
  reference::token_shift_backward<float>(u, mu0, d0, expected, sum0);
  reference::token_shift_backward<float>(u, mu1, d1, expected, sum1);
  EXPECT_EQ(du, expected);
  EXPECT_EQ(dmu0, sum0);
  EXPECT_EQ(dmu1, sum1);
}

INSTANTIATE_TEST_SUITE_P(Isas, TokenShiftRows, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
