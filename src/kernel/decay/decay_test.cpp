#include "kernel/decay/decay.h"

#include "kernel/decay/reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

struct Decays : testing::Test {
  ThreadPool threads{2};
  Cpu cpu{threads};
};

TEST_F(Decays, AreTheDefinitionWithAndWithoutBound) {
  for (const int64_t size : {1, 8}) {
    const int64_t rows = 13, heads = 3, channels = heads * size;
    const Vector<double> zd = normal_numbers(rows * channels, 8, 1),
                         bd = normal_numbers(channels, 1, 2);
    const Vector<double> rate_d{0.01, 1, 16};
    const Vector<float> z = as<float>(zd), bias = as<float>(bd), rate = as<float>(rate_d);
    for (const bool bounded : {false, true}) {
      Vector<float> found = z, plain(z.size());
      Vector<double> truth(z.size());
      Decay op{{found.data(), {rows, channels}}, heads, rate.data(), bias.data()};
      if (bounded) op.bound = -5.0f;
      decay(op, cpu);
      for (size_t i = 0; i < z.size(); ++i) {
        const size_t c = i % size_t(channels), h = c / size_t(size);
        plain[i] = reference::decay<float>(z[i] + bias[c], rate[h],
                                           bounded ? std::optional(-5.0f) : std::nullopt);
        truth[i] = reference::decay<double>(zd[i] + bd[c], double(rate[h]),
                                            bounded ? std::optional(-5.0) : std::nullopt);
        EXPECT_GE(found[i], bounded ? std::exp(-5.01f) : 0.0f);
        EXPECT_LE(found[i], 1.0f);
      }
      expect_close("decay", found, plain, truth);
    }
  }
}

// By formulas that need no care: log1p is exact where exp neither overflows nor vanishes.
TEST_F(Decays, DefinitionIsTheFormula) {
  for (const double x : {-30.0, -3.0, 0.0, 0.5, 3.0, 30.0})
    EXPECT_NEAR(reference::decay<double>(x, 0.5, std::nullopt), 1 / std::sqrt(1 + std::exp(x)),
                1e-15);
  EXPECT_NEAR(reference::decay<double>(0.0, 2.0, -5.0), std::exp(-2.5), 1e-15);
  EXPECT_EQ(reference::decay<float>(200.0f, 16.0f, std::nullopt), 0.0f);
}

TEST_F(Decays, GradientsAreTheDefinition) {
  for (const int64_t size : {1, 8})
    for (const bool bounded : {false, true}) {
      const int64_t rows = 21, heads = 3, channels = heads * size;
      const Vector<double> zd = normal_numbers(rows * channels, 3, 1),
                           bd = normal_numbers(channels, 1, 2), rate_d{0.01, 1, 16},
                           dwd = normal_numbers(rows * channels, 1, 3);
      const Vector<float> z = as<float>(zd), bias = as<float>(bd), rate = as<float>(rate_d);
      Vector<float> found = as<float>(dwd), drate(3, 0.5f), dbias(size_t(channels), 0.5f);
      DecayGradient op{{z.data(), {rows, channels}},     heads,        rate.data(), bias.data(),
                       {found.data(), {rows, channels}}, drate.data(), dbias.data()};
      if (bounded) op.bound = -5.0f;
      decay_backward(op, cpu);
      const auto define = [&]<class Real>(const Vector<Real>& from, const Vector<Real>& b,
                                          Vector<Real>& d, Vector<Real>& r, Vector<Real>& db) {
        r.assign(3, Real(0.5)), db.assign(size_t(channels), Real(0.5));
        for (size_t i = 0; i < d.size(); ++i) {
          const size_t c = i % size_t(channels), h = c / size_t(size);
          const auto by = reference::decay_derivatives<Real>(
              from[i] + b[c], Real(rate[h]), bounded ? std::optional(Real(-5)) : std::nullopt);
          r[h] += d[i] * by.log_rate;
          db[c] += d[i] *= by.x;
        }
      };
      Vector<float> plain = as<float>(dwd), plain_rate, plain_bias;
      Vector<double> truth = dwd, true_rate, true_bias;
      define.operator()<float>(z, bias, plain, plain_rate, plain_bias);
      define.operator()<double>(zd, bd, truth, true_rate, true_bias);
      expect_close("dz", found, plain, truth);
      expect_close("dlog_rate", drate, plain_rate, true_rate);
      expect_close("dbias", dbias, plain_bias, true_bias);
    }
}

TEST_F(Decays, DefinitionOfTheDerivativesIsThatOfTheFormula) {
  for (const std::optional<double> bound : {std::optional<double>(), std::optional(-5.0)})
    for (const double at : {-4.0, -0.3, 0.0, 2.0}) {
      Vector<double> x{at, std::log(0.7)};  // the argument, and log rate
      const auto by = reference::decay_derivatives<double>(x[0], 0.7, bound);
      expect_gradient("decay", x, {by.x, by.log_rate},
                      [&] { return reference::decay<double>(x[0], std::exp(x[1]), bound); });
    }
}

TEST_F(Decays, WrongHeadsAreNamed) {
  Vector<float> z(10);
  EXPECT_FAULT(decay({{z.data(), {2, 5}}, 2, z.data(), z.data()}, cpu), Fault::argument,
               "heads: expected a divisor of 5 channels, found 2");
}

}  // namespace
}  // namespace deltasane::kernel
