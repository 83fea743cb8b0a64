#include "kernel/rwkv7/rwkv7.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernel/isa_dispatch.h"
#include "kernel/rwkv7/reference.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

using Numbers = std::vector<float>;

Numbers normal(int64_t count, double scale, uint64_t stream) {
  Random random(3, stream);
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(float(scale * random.normal()));
  return out;
}

std::vector<double> exact(const Numbers& x) { return {x.begin(), x.end()}; }

class Rwkv7Rows : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool threads_{2};
  Cpu cpu() { return {threads_, GetParam()}; }
  void SetUp() override {
    if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  }
};

void expect_close(const Numbers& found, const Numbers& plain, const std::vector<double>& truth,
                  const char* what) {
  const Closeness result = closeness(found, plain, truth);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

TEST_P(Rwkv7Rows, LayerNormIsTheDefinition) {
  for (const int64_t channels : {1, 7, 64, 100, 768}) {
    const int64_t rows = 19;
    const Numbers x = normal(rows * channels, 3, 1), weight = normal(channels, 1, 2),
                  bias = normal(channels, 1, 3);
    Numbers found(x.size(), NAN), plain = found;
    std::vector<double> truth(x.size());
    layer_norm({x.data(), {rows, channels}}, weight.data(), bias.data(), 1e-5f,
               {found.data(), {rows, channels}}, cpu());
    const std::vector<double> xd = exact(x), wd = exact(weight), bd = exact(bias);
    for (int64_t row = 0; row < rows; ++row) {
      const size_t at = size_t(row * channels), n = size_t(channels);
      reference::layer_norm<float>(std::span(x).subspan(at, n), weight, bias, 1e-5f,
                                   std::span(plain).subspan(at, n));
      reference::layer_norm<double>(std::span(xd).subspan(at, n), wd, bd, double(1e-5f),
                                    std::span(truth).subspan(at, n));
    }
    expect_close(found, plain, truth, "layer_norm");
  }
}

TEST_P(Rwkv7Rows, TokenShiftMixesWithTheRowBefore) {
  const int64_t rows = 11, channels = 70;
  const Numbers u = normal(rows * channels, 1, 1), before = normal(channels, 1, 2);
  const Numbers mu0 = normal(channels, 1, 3), mu1(size_t(channels), 1.0f);
  Numbers out0(u.size(), NAN), out1 = out0;
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

TEST_P(Rwkv7Rows, TimeMixInputsAreTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}})
    for (const bool first : {false, true}) {
      const int64_t rows = 9, channels = heads * size, n = rows * channels;
      Numbers w = normal(n, 3, 1), a = normal(n, 3, 2), b(size_t(n), NAN), k = normal(n, 1, 3),
              v = normal(n, 1, 4);
      const Numbers gate = normal(n, 1, 5), v_first = normal(n, 1, 6), w0 = normal(channels, 3, 7),
                    a0 = normal(channels, 1, 8), v0 = normal(channels, 1, 9),
                    k_k = normal(channels, 1, 10), k_a = normal(channels, 1, 11);
      Numbers pw = w, pa = a, pb = b, pk = k, pv = v;
      std::vector<double> tw = exact(w), ta = exact(a), tb = exact(b), tk = exact(k), tv = exact(v);
      const std::vector<double> dgate = exact(gate), dv_first = exact(v_first), dw0 = exact(w0),
                                da0 = exact(a0), dv0 = exact(v0), dk_k = exact(k_k),
                                dk_a = exact(k_a);
      const Shape shape{rows, channels};
      time_mix_inputs({size,
                       {w.data(), shape},
                       {a.data(), shape},
                       {b.data(), shape},
                       {k.data(), shape},
                       {v.data(), shape},
                       first ? View<const float>{} : View<const float>{gate.data(), shape},
                       first ? View<const float>{} : View<const float>{v_first.data(), shape},
                       w0.data(),
                       a0.data(),
                       v0.data(),
                       k_k.data(),
                       k_a.data()},
                      cpu());
      for (int64_t row = 0; row < rows; ++row) {
        const size_t at = size_t(row * channels), c = size_t(channels), some = first ? 0 : c;
        const auto part = [&](auto& x) { return std::span(x).subspan(at, c); };
        reference::time_mix_inputs<float>({size, part(pw), part(pa), part(pb), part(pk), part(pv),
                                           std::span(gate).subspan(at, some),
                                           std::span(v_first).subspan(at, some), w0, a0, v0, k_k,
                                           k_a});
        reference::time_mix_inputs<double>({size, part(tw), part(ta), part(tb), part(tk), part(tv),
                                            std::span(dgate).subspan(at, some),
                                            std::span(dv_first).subspan(at, some), dw0, da0, dv0,
                                            dk_k, dk_a});
      }
      expect_close(w, pw, tw, "w");
      expect_close(a, pa, ta, "a");
      expect_close(b, pb, tb, "b");
      expect_close(k, pk, tk, "k");
      expect_close(v, pv, tv, "v");
    }
}

TEST_P(Rwkv7Rows, TimeMixOutputIsTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}}) {
    const int64_t rows = 9, channels = heads * size, n = rows * channels;
    Numbers y = normal(n, 2, 1);
    const Numbers r = normal(n, 1, 2), k = normal(n, 1, 3), v = normal(n, 1, 4),
                  g = normal(n, 1, 5), weight = normal(channels, 1, 6),
                  bias = normal(channels, 1, 7), r_k = normal(channels, 1, 8);
    Numbers plain = y;
    std::vector<double> truth = exact(y);
    const std::vector<double> dr = exact(r), dk = exact(k), dv = exact(v), dg = exact(g),
                              dweight = exact(weight), dbias = exact(bias), dr_k = exact(r_k);
    const Shape shape{rows, channels};
    time_mix_output({size,
                     {y.data(), shape},
                     {r.data(), shape},
                     {k.data(), shape},
                     {v.data(), shape},
                     {g.data(), shape},
                     weight.data(),
                     bias.data(),
                     r_k.data(),
                     64e-5f},
                    cpu());
    for (int64_t row = 0; row < rows; ++row) {
      const auto part = [&](auto& x) {
        return std::span(x).subspan(size_t(row * channels), size_t(channels));
      };
      reference::time_mix_output<float>(
          {size, part(plain), part(r), part(k), part(v), part(g), weight, bias, r_k, 64e-5f});
      reference::time_mix_output<double>({size, part(truth), part(dr), part(dk), part(dv), part(dg),
                                          dweight, dbias, dr_k, double(64e-5f)});
    }
    expect_close(y, plain, truth, "y");
  }
}

TEST_P(Rwkv7Rows, ActivationsAreTheDefinition) {
  const int64_t rows = 3, channels = 333;
  const Numbers x = normal(rows * channels, 5, 1);
  const auto check = [&](Activation activation, auto definition, const char* what) {
    Numbers found = x, plain = x;
    std::vector<double> truth = exact(x);
    activate(activation, {found.data(), {rows, channels}}, cpu());
    for (float& value : plain) value = definition(value);
    for (double& value : truth) value = definition(value);
    expect_close(found, plain, truth, what);
  };
  check(
      Activation::tanh, [](auto v) { return std::tanh(v); }, "tanh");
  check(
      Activation::sigmoid, [](auto v) { return 1 / (1 + std::exp(-v)); }, "sigmoid");
  check(
      Activation::squared_relu, [](auto v) { return v > 0 ? v * v : decltype(v)(0); }, "relu^2");
}

// A model in the beginning of its training has low ranks near zero.
TEST_P(Rwkv7Rows, TanhKeepsTheDigitsOfSmallNumbers) {
  Numbers x(4096), found;
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float((i % 2 ? -1 : 1) * std::pow(10, -8 + 9 * double(i) / double(x.size())));
  found = x;
  activate(Activation::tanh, {found.data(), {1, int64_t(x.size())}}, cpu());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, std::abs(double(found[i]) / std::tanh(double(x[i])) - 1));
  RecordProperty("worst", cat(worst));
  EXPECT_LT(worst, 4e-7);  // docs/numerics.md
}

TEST_P(Rwkv7Rows, WrongShapesAreNamed) {
  Numbers x(20);
  EXPECT_FAULT(layer_norm({x.data(), {4, 5}}, x.data(), x.data(), 1e-5f, {x.data(), {5, 4}}, cpu()),
               Fault::argument, "y: expected shape (4, 5), found (5, 4)");
}

INSTANTIATE_TEST_SUITE_P(Isas, Rwkv7Rows, testing::ValuesIn(float_isas),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

}  // namespace
}  // namespace deltasane::kernel
