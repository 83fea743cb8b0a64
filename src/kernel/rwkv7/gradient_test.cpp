// The definition of the row operations' gradients against central differences in double, and the
// kernels against the definition.
#include "kernel/rwkv7/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "kernel/isa_dispatch.h"
#include "kernel/rwkv7/gradient_reference.h"
#include "kernel/rwkv7/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

template <class Real>
using Vector = std::vector<Real>;

Vector<double> drawn(int64_t count, double scale, uint64_t stream) {
  Random random(11, stream);
  Vector<double> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(double(float(scale * random.normal())));
  return out;
}

template <class Real>
Vector<Real> as(const Vector<double>& x) {
  return {x.begin(), x.end()};
}

double dot(const Vector<double>& a, const Vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// d loss / d x against central differences, extrapolated; the bound is that of docs/numerics.md.
void expect_gradient(const char* what, Vector<double>& x, const Vector<double>& dx,
                     const std::function<double()>& loss) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    double scale = 0;
    const auto difference = [&](double h) {
      x[i] = kept + h;
      const double up = loss();
      x[i] = kept - h;
      const double down = loss();
      x[i] = kept;
      scale = std::abs(up) + std::abs(down) + 10;
      return (up - down) / (2 * h);
    };
    const double whole = difference(1e-3), half = difference(5e-4);
    const double allowed = std::abs(whole - half) / 8 + 8 * 2.3e-16 * scale / 5e-4 + 1e-11;
    EXPECT_NEAR(dx[i], half + (half - whole) / 3, allowed) << what << " " << i;
  }
}

// The operands of the two large operations, for a few rows; every gradient begins as 0.
template <class Real>
struct Operands {
  int64_t rows, heads, size;
  Vector<Real> w, a, b, k, v, gate, v_first, r, g, y;    // (rows, C)
  Vector<Real> w0, a0, v0, k_k, k_a, weight, bias, r_k;  // (C)
  Vector<Real> dw, da, db, dk, dv, dgate, dv_first, dr, dg, dy;
  Vector<Real> dw0, da0, dv0, dk_k, dk_a, dweight, dbias, dr_k;

  Operands(int64_t rows_, int64_t heads_, int64_t size_) : rows(rows_), heads(heads_), size(size_) {
    const int64_t c = heads * size, n = rows * c;
    uint64_t stream = 1;
    for (auto* x : {&w, &a, &b, &k, &v, &gate, &v_first, &r, &g, &y, &dw, &da, &db, &dk, &dv, &dy})
      *x = as<Real>(drawn(n, 1, stream++));
    for (auto* x : {&w0, &a0, &v0, &k_k, &k_a, &weight, &bias, &r_k})
      *x = as<Real>(drawn(c, 1, stream++));
    for (auto* x : {&dgate, &dv_first, &dr, &dg}) x->assign(size_t(n), Real(0));
    for (auto* x : {&dw0, &da0, &dv0, &dk_k, &dk_a, &dweight, &dbias, &dr_k})
      x->assign(size_t(c), Real(0));
  }
  int64_t channels() const { return heads * size; }
  std::span<Real> row(Vector<Real>& x, int64_t i) const {
    if (x.empty()) return {};
    return std::span(x).subspan(size_t(i * channels()), size_t(channels()));
  }
  void first_layer() {
    for (auto* x : {&gate, &v_first, &dgate, &dv_first}) x->clear();
  }
  void inputs() {
    for (int64_t i = 0; i < rows; ++i)
      reference::time_mix_inputs<Real>({size, row(w, i), row(a, i), row(b, i), row(k, i), row(v, i),
                                        row(gate, i), row(v_first, i), w0, a0, v0, k_k, k_a});
  }
  void inputs_backward() {
    for (int64_t i = 0; i < rows; ++i)
      reference::time_mix_inputs_backward<Real>({size,
                                                 row(w, i),
                                                 row(a, i),
                                                 row(k, i),
                                                 row(v, i),
                                                 row(gate, i),
                                                 row(v_first, i),
                                                 w0,
                                                 a0,
                                                 v0,
                                                 k_k,
                                                 k_a,
                                                 row(dw, i),
                                                 row(da, i),
                                                 row(dk, i),
                                                 row(dv, i),
                                                 row(db, i),
                                                 row(dgate, i),
                                                 row(dv_first, i),
                                                 dw0,
                                                 da0,
                                                 dv0,
                                                 dk_k,
                                                 dk_a});
  }
  void output() {
    for (int64_t i = 0; i < rows; ++i)
      reference::time_mix_output<Real>({size, row(y, i), row(r, i), row(k, i), row(v, i), row(g, i),
                                        weight, bias, r_k, Real(64e-5f)});
  }
  void output_backward() {
    for (int64_t i = 0; i < rows; ++i)
      reference::time_mix_output_backward<Real>({size, row(y, i), row(r, i), row(k, i), row(v, i),
                                                 row(g, i), weight, bias, r_k, Real(64e-5f),
                                                 row(dy, i), row(dr, i), row(dk, i), row(dv, i),
                                                 row(dg, i), dweight, dbias, dr_k});
  }
};

TEST(Rwkv7GradientDefinition, OfTheTimeMixInputs) {
  for (const bool first : {false, true}) {
    Operands<double> o(3, 2, 5);
    if (first) o.first_layer();
    Operands<double> found = o;
    found.inputs_backward();
    const auto loss = [&] {
      Operands<double> p = o;
      p.inputs();
      return dot(o.dw, p.w) + dot(o.da, p.a) + dot(o.db, p.b) + dot(o.dk, p.k) + dot(o.dv, p.v);
    };
    expect_gradient("w", o.w, found.dw, loss);
    expect_gradient("a", o.a, found.da, loss);
    expect_gradient("k", o.k, found.dk, loss);
    expect_gradient("v", o.v, found.dv, loss);
    expect_gradient("gate", o.gate, found.dgate, loss);
    expect_gradient("v_first", o.v_first, found.dv_first, loss);
    expect_gradient("w0", o.w0, found.dw0, loss);
    expect_gradient("a0", o.a0, found.da0, loss);
    expect_gradient("v0", o.v0, found.dv0, loss);
    expect_gradient("k_k", o.k_k, found.dk_k, loss);
    expect_gradient("k_a", o.k_a, found.dk_a, loss);
  }
}

TEST(Rwkv7GradientDefinition, OfTheTimeMixOutput) {
  Operands<double> o(3, 2, 5);
  Operands<double> found = o;
  found.output_backward();
  const auto loss = [&] {
    Operands<double> p = o;
    p.output();
    return dot(o.dy, p.y);
  };
  expect_gradient("y", o.y, found.dy, loss);
  expect_gradient("r", o.r, found.dr, loss);
  expect_gradient("k", o.k, found.dk, loss);
  expect_gradient("v", o.v, found.dv, loss);
  expect_gradient("g", o.g, found.dg, loss);
  expect_gradient("weight", o.weight, found.dweight, loss);
  expect_gradient("bias", o.bias, found.dbias, loss);
  expect_gradient("r_k", o.r_k, found.dr_k, loss);
}

template <class Real>
struct NormCase {
  Vector<Real> x, weight, dy, dx, dweight, dbias;
  explicit NormCase(int64_t rows, int64_t c)
      : x(as<Real>(drawn(rows * c, 2, 1))),
        weight(as<Real>(drawn(c, 1, 2))),
        dy(as<Real>(drawn(rows * c, 1, 3))),
        dx(as<Real>(drawn(rows * c, 1, 4))),
        dweight(size_t(c)),
        dbias(size_t(c)) {}
  void backward(int64_t rows) {
    const size_t c = weight.size();
    for (size_t i = 0; i < size_t(rows); ++i)
      reference::layer_norm_backward<Real>({std::span(x).subspan(i * c, c), weight, Real(1e-5f),
                                            std::span(dy).subspan(i * c, c),
                                            std::span(dx).subspan(i * c, c), dweight, dbias});
  }
};

TEST(Rwkv7GradientDefinition, OfTheLayerNorm) {
  NormCase<double> o(1, 9), found = o;
  found.dx.assign(9, 0.0);
  found.backward(1);
  Vector<double> bias(9, 0.3);
  const auto loss = [&] {
    Vector<double> y(9);
    reference::layer_norm<double>(o.x, o.weight, bias, double(1e-5f), y);
    return dot(o.dy, y);
  };
  expect_gradient("x", o.x, found.dx, loss);
  expect_gradient("weight", o.weight, found.dweight, loss);
  expect_gradient("bias", bias, found.dbias, loss);
}

class Rwkv7RowGradients : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool threads_{2};
  Cpu cpu() { return {threads_, GetParam()}; }
  void SetUp() override {
    if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  }
};

void expect_near(const char* what, const Vector<float>& found, const Vector<float>& plain,
                 const Vector<double>& truth) {
  const Closeness result = closeness(found, plain, truth);
  EXPECT_TRUE(result.close) << what << " is " << result.explanation();
}

TEST_P(Rwkv7RowGradients, OfTheLayerNormAreTheDefinition) {
  for (const int64_t c : {3, 7, 64, 100}) {  // one channel alone is all rounding
    const int64_t rows = 37;
    NormCase<float> found(rows, c), plain = found;
    NormCase<double> truth(rows, c);
    layer_norm_backward({{found.x.data(), {rows, c}},
                         found.weight.data(),
                         1e-5f,
                         {found.dy.data(), {rows, c}},
                         {found.dx.data(), {rows, c}},
                         found.dweight.data(),
                         found.dbias.data()},
                        cpu());
    plain.backward(rows);
    truth.backward(rows);
    expect_near("dx", found.dx, plain.dx, truth.dx);
    expect_near("dweight", found.dweight, plain.dweight, truth.dweight);
    expect_near("dbias", found.dbias, plain.dbias, truth.dbias);
  }
}

TEST_P(Rwkv7RowGradients, OfTheLargeOperationsAreTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}})
    for (const bool first : {false, true}) {
      const int64_t rows = 41;
      Operands<float> found(rows, heads, size);
      Operands<double> truth(rows, heads, size);
      if (first) found.first_layer(), truth.first_layer();
      Operands<float> plain = found;
      const Shape shape{rows, heads * size};
      const auto view = [&](Vector<float>& x) {
        return x.empty() ? View<float>() : View<float>{x.data(), shape};
      };
      Operands<float>& o = found;
      time_mix_inputs_backward(
          {size,         view(o.w),       view(o.a),     view(o.k),        view(o.v),
           view(o.gate), view(o.v_first), o.w0.data(),   o.a0.data(),      o.v0.data(),
           o.k_k.data(), o.k_a.data(),    view(o.dw),    view(o.da),       view(o.dk),
           view(o.dv),   view(o.db),      view(o.dgate), view(o.dv_first), o.dw0.data(),
           o.da0.data(), o.dv0.data(),    o.dk_k.data(), o.dk_a.data()},
          cpu());
      plain.inputs_backward();
      truth.inputs_backward();
      expect_near("dw", o.dw, plain.dw, truth.dw);
      expect_near("da", o.da, plain.da, truth.da);
      expect_near("dk", o.dk, plain.dk, truth.dk);
      expect_near("dv", o.dv, plain.dv, truth.dv);
      expect_near("dgate", o.dgate, plain.dgate, truth.dgate);
      expect_near("dv_first", o.dv_first, plain.dv_first, truth.dv_first);
      expect_near("dw0", o.dw0, plain.dw0, truth.dw0);
      expect_near("da0", o.da0, plain.da0, truth.da0);
      expect_near("dv0", o.dv0, plain.dv0, truth.dv0);
      expect_near("dk_k", o.dk_k, plain.dk_k, truth.dk_k);
      expect_near("dk_a", o.dk_a, plain.dk_a, truth.dk_a);

      time_mix_output_backward(
          {size, view(o.y), view(o.r), view(o.k), view(o.v), view(o.g), o.weight.data(),
           o.bias.data(), o.r_k.data(), 64e-5f, view(o.dy), view(o.dr), view(o.dk), view(o.dv),
           view(o.dg), o.dweight.data(), o.dbias.data(), o.dr_k.data()},
          cpu());
      plain.output_backward();
      truth.output_backward();
      expect_near("dy", o.dy, plain.dy, truth.dy);
      expect_near("dr", o.dr, plain.dr, truth.dr);
      expect_near("dk of the bonus", o.dk, plain.dk, truth.dk);
      expect_near("dv of the bonus", o.dv, plain.dv, truth.dv);
      expect_near("dg", o.dg, plain.dg, truth.dg);
      expect_near("dweight", o.dweight, plain.dweight, truth.dweight);
      expect_near("dbias", o.dbias, plain.dbias, truth.dbias);
      expect_near("dr_k", o.dr_k, plain.dr_k, truth.dr_k);
    }
}

// Small integers: every sum is exact.
TEST_P(Rwkv7RowGradients, OfTheTokenShiftGoToTheRowAndTheOneBefore) {
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
  for (int64_t i = 0; i < c; ++i) {
    float sum0 = 1, sum1 = 2;
    for (int64_t t = 0; t < time; ++t) {
      const size_t at = size_t(t * c + i), next = at + size_t(c);
      float expected = d0[at] * (1 - mu0[size_t(i)]) + d1[at] * (1 - mu1[size_t(i)]);
      if (t + 1 < time) expected += d0[next] * mu0[size_t(i)] + d1[next] * mu1[size_t(i)];
      EXPECT_EQ(du[at], expected);
      const float change = (t ? u[at - size_t(c)] : 0) - u[at];
      sum0 += d0[at] * change, sum1 += d1[at] * change;
    }
    EXPECT_EQ(dmu0[size_t(i)], sum0);
    EXPECT_EQ(dmu1[size_t(i)], sum1);
  }
}

TEST_P(Rwkv7RowGradients, OfTheActivationsAreTheirDerivatives) {
  const Vector<double> x = drawn(3 * 50, 2, 1);
  const auto check = [&](Activation activation, auto function, auto derivative, const char* what) {
    Vector<float> y, dy(x.size(), 1.0f), plain;
    Vector<double> truth;
    for (const double value : x) {
      y.push_back(function(float(value)));
      plain.push_back(derivative(float(value)));
      truth.push_back(derivative(value));
    }
    activate_backward(activation, {y.data(), {3, 50}}, {dy.data(), {3, 50}}, cpu());
    expect_near(what, dy, plain, truth);
  };
  check(
      Activation::tanh, [](auto v) { return std::tanh(v); },
      [](auto v) { return 1 - std::tanh(v) * std::tanh(v); }, "tanh");
  const auto logistic = [](auto v) { return 1 / (1 + std::exp(-v)); };
  check(
      Activation::sigmoid, logistic, [&](auto v) { return logistic(v) * (1 - logistic(v)); },
      "sigmoid");
  check(
      Activation::squared_relu, [](auto v) { return v > 0 ? v * v : decltype(v)(0); },
      [](auto v) { return v > 0 ? 2 * v : decltype(v)(0); }, "relu^2");
}

TEST(Rwkv7RowGradientLaws, ThreadsDoNotShow) {
  const int64_t rows = 100, heads = 2, size = 16;
  Operands<float> one(rows, heads, size), three = one;
  for (auto* o : {&one, &three}) {
    ThreadPool threads(o == &one ? 1 : 3);
    const Shape shape{rows, heads * size};
    const auto view = [&](Vector<float>& x) { return View<float>{x.data(), shape}; };
    time_mix_output_backward(
        {size, view(o->y), view(o->r), view(o->k), view(o->v), view(o->g), o->weight.data(),
         o->bias.data(), o->r_k.data(), 64e-5f, view(o->dy), view(o->dr), view(o->dk), view(o->dv),
         view(o->dg), o->dweight.data(), o->dbias.data(), o->dr_k.data()},
        {threads});
  }
  EXPECT_EQ(one.dweight, three.dweight);
  EXPECT_EQ(one.dr_k, three.dr_k);
  EXPECT_EQ(one.dy, three.dy);
}

INSTANTIATE_TEST_SUITE_P(Isas, Rwkv7RowGradients, testing::ValuesIn(float_isas),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

}  // namespace
}  // namespace deltasane::kernel
