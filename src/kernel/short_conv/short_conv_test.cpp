#include "kernel/short_conv/short_conv.h"

#include "kernel/rows/row_test_case.h"
#include "kernel/short_conv/reference.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

class ShortConvOf : public RowTest {
 protected:
  static constexpr int64_t time = 29, channels = 21;
  Vector<double> xd = normal_numbers(time * channels, 1, 1);
  Vector<float> x = as<float>(xd);

  // The whole in calls of these lengths.
  Vector<float> convolve(int64_t taps, const Vector<float>& weight, std::vector<int64_t> calls) {
    Vector<float> y(x.size(), NAN), before(size_t((taps - 1) * channels));
    int64_t from = 0;
    for (const int64_t count : calls) {
      short_conv({{x.data() + from * channels, {count, channels}},
                  taps,
                  weight.data(),
                  before.data(),
                  {y.data() + from * channels, {count, channels}}},
                 cpu());
      from += count;
    }
    EXPECT_EQ(from, time);
    for (int64_t i = 0; i < (taps - 1) * channels; ++i)
      EXPECT_EQ(before[size_t(i)], x[size_t((time - taps + 1) * channels + i)]);
    return y;
  }
};

TEST_P(ShortConvOf, IsTheDefinitionHoweverItIsCut) {
  for (const int64_t taps : {1, 2, 4, 7}) {
    const Vector<double> wd = normal_numbers(taps * channels, 1, 2);  // (tap, channel)
    const Vector<float> weight = as<float>(wd);
    const Vector<float> found = convolve(taps, weight, {time});
    Vector<float> plain(x.size());
    Vector<double> truth(x.size());
    for (size_t c = 0; c < size_t(channels); ++c) {
      const auto column = [&](const auto& of, int64_t count) {
        auto all = of;
        all.clear();
        for (size_t i = 0; i < size_t(count); ++i) all.push_back(of[i * size_t(channels) + c]);
        return all;
      };
      const Vector<float> xc = column(x, time), wc = column(weight, taps);
      const Vector<double> xcd = column(xd, time), wcd = column(wd, taps);
      for (size_t t = 0; t < size_t(time); ++t) {
        plain[t * size_t(channels) + c] = reference::short_conv<float>(xc, wc, t);
        truth[t * size_t(channels) + c] = reference::short_conv<double>(xcd, wcd, t);
      }
    }
    expect_close("short_conv", found, plain, truth);
    EXPECT_EQ(convolve(taps, weight, {1, 2, 0, 5, 21}), found);
    EXPECT_EQ(convolve(taps, weight, std::vector<int64_t>(size_t(time), 1)), found);
  }
}

// One channel after another, by the definition.
template <class Real>
void define_gradient(int64_t taps, int64_t channels, const Vector<Real>& x,
                     const Vector<Real>& weight, const Vector<Real>& dy, Vector<Real>& dx,
                     Vector<Real>& dweight) {
  const auto n = size_t(channels);
  for (size_t c = 0; c < n; ++c) {
    const auto column = [&](const Vector<Real>& of) {
      Vector<Real> all;
      for (size_t i = c; i < of.size(); i += n) all.push_back(of[i]);
      return all;
    };
    const Vector<Real> xc = column(x), wc = column(weight), dyc = column(dy);
    Vector<Real> dxc = column(dx), dwc = column(dweight);
    reference::short_conv_backward<Real>(xc, wc, dyc, dxc, dwc);
    for (size_t t = 0; t < xc.size(); ++t) dx[t * n + c] = dxc[t];
    for (size_t j = 0; j < size_t(taps); ++j) dweight[j * n + c] = dwc[j];
  }
}

TEST_P(ShortConvOf, GradientsAreTheDefinition) {
  for (const int64_t taps : {1, 2, 4, 7}) {
    const Vector<double> wd = normal_numbers(taps * channels, 1, 2),
                         dyd = normal_numbers(time * channels, 1, 3);
    const Vector<float> weight = as<float>(wd);
    Vector<float> dy = as<float>(dyd), dx(x.size(), NAN), dweight(weight.size(), 0.5f);
    Vector<float> plain_dx(x.size()), plain_dw(weight.size(), 0.5f);
    Vector<double> true_dx(x.size()), true_dw(weight.size(), 0.5);
    define_gradient<float>(taps, channels, x, weight, dy, plain_dx, plain_dw);
    define_gradient<double>(taps, channels, xd, wd, dyd, true_dx, true_dw);
    short_conv_backward({{x.data(), {time, channels}},
                         taps,
                         weight.data(),
                         {dy.data(), {time, channels}},
                         {dx.data(), {time, channels}},
                         dweight.data()},
                        cpu());
    expect_close("dx", dx, plain_dx, true_dx);
    expect_close("dweight", dweight, plain_dw, true_dw);
  }
}

TEST(ShortConvDefinition, GradientIsThatOfTheLoss) {
  Vector<double> x = normal_numbers(9, 1, 1), weight = normal_numbers(4, 1, 2);
  const Vector<double> dy = normal_numbers(9, 1, 3);
  Vector<double> dx(9), dweight(4);
  reference::short_conv_backward<double>(x, weight, dy, dx, dweight);
  const auto loss = [&] {
    double sum = 0;
    for (size_t t = 0; t < x.size(); ++t)
      sum += dy[t] * reference::short_conv<double>(x, weight, t);
    return sum;
  };
  expect_gradient("x", x, dx, loss);
  expect_gradient("weight", weight, dweight, loss);
}

TEST_P(ShortConvOf, TooManyTapsAreNamed) {
  Vector<float> all(100);
  const View<float> rows{all.data(), {1, 2}};
  EXPECT_FAULT(short_conv({rows, 17, all.data(), all.data(), rows}, cpu()), Fault::argument,
               "taps: expected 1 to 16, found 17");
}

INSTANTIATE_TEST_SUITE_P(Isas, ShortConvOf, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
