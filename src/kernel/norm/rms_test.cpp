#include "kernel/norm/rms.h"

#include "kernel/activation/reference.h"
#include "kernel/norm/rms_reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

// All heads of all rows; gate empty: none.
template <class Real>
Vector<Real> rms_of(const Vector<Real>& x, const Vector<Real>& weight, const Vector<Real>& gate,
                    GateActivation activation) {
  Vector<Real> y(x.size());
  const size_t n = weight.size();
  for (size_t at = 0; at < x.size(); at += n)
    reference::rms_norm<Real>(std::span(x).subspan(at, n), weight, Real(1e-5f),
                              std::span(y).subspan(at, n));
  for (size_t i = 0; i < gate.size(); ++i) y[i] *= reference::gate_of(activation, gate[i]);
  return y;
}

class RmsNormOf : public RowTest {};

TEST_P(RmsNormOf, HeadsWithAndWithoutGateIsTheDefinition) {
  for (const int64_t size : {1, 7, 64, 100})
    for (const int64_t heads : {1, 3}) {
      const int64_t rows = 11, channels = size * heads;
      const Vector<double> xd = normal_numbers(rows * channels, 2, 1),
                           wd = normal_numbers(size, 1, 2),
                           gd = normal_numbers(rows * channels, 3, 3), none;
      const Vector<float> x = as<float>(xd), weight = as<float>(wd), gate = as<float>(gd);
      for (const auto activation : {GateActivation::silu, GateActivation::sigmoid})
        for (const bool gated : {false, true}) {
          Vector<float> found(x.size(), NAN);
          RmsNorm op{{x.data(), {rows, channels}}, size, weight.data(), 1e-5f,
                     {found.data(), {rows, channels}}};
          if (gated) op.gate = {gate.data(), {rows, channels}};
          op.activation = activation;
          rms_norm(op, cpu());
          expect_close("rms_norm", found,
                       rms_of<float>(x, weight, gated ? gate : Vector<float>(), activation),
                       rms_of<double>(xd, wd, gated ? gd : none, activation));
        }
    }
}

TEST_P(RmsNormOf, L2IsTheDefinition) {
  for (const int64_t size : {1, 5, 64, 100}) {
    const int64_t rows = 9, channels = 2 * size;
    Vector<double> truth = normal_numbers(rows * channels, 0.1, 1);
    Vector<float> plain = as<float>(truth), found = plain;
    l2_norm({found.data(), {rows, channels}}, size, 1e-6f, 0.25f, cpu());
    for (size_t at = 0; at < found.size(); at += size_t(size)) {
      reference::l2_norm<float>(std::span(plain).subspan(at, size_t(size)), 1e-6f, 0.25f);
      reference::l2_norm<double>(std::span(truth).subspan(at, size_t(size)), double(1e-6f), 0.25);
    }
    expect_close("l2_norm", found, plain, truth);
  }
}

TEST_P(RmsNormOf, GatedRowsAreTheDefinition) {
  const int64_t rows = 5, channels = 37;
  const Vector<double> gd = normal_numbers(rows * channels, 4, 1),
                       xd = normal_numbers(rows * channels, 2, 2);
  const Vector<float> gate = as<float>(gd), x = as<float>(xd);
  for (const auto activation : {GateActivation::silu, GateActivation::sigmoid}) {
    Vector<float> found(x.size(), NAN), plain(x.size());
    Vector<double> truth(x.size());
    multiply_by_gate(activation, {gate.data(), {rows, channels}}, {x.data(), {rows, channels}},
                     {found.data(), {rows, channels}}, cpu());
    for (size_t i = 0; i < x.size(); ++i) {
      plain[i] = reference::gate_of(activation, gate[i]) * x[i];
      truth[i] = reference::gate_of(activation, gd[i]) * xd[i];
    }
    expect_close("gate", found, plain, truth);
  }
}

// Everything that a gated or plain norm has a gradient for.
template <class Real>
struct RmsGradientCase {
  Vector<Real> x, weight, gate, dy, dx, dweight, dgate;
  GateActivation activation;

  RmsGradientCase(int64_t rows, int64_t heads, int64_t size, bool gated, GateActivation kind)
      : x(as<Real>(normal_numbers(rows * heads * size, 2, 1))),
        weight(as<Real>(normal_numbers(size, 1, 2))),
        gate(as<Real>(normal_numbers(gated ? rows * heads * size : 0, 3, 3))),
        dy(as<Real>(normal_numbers(rows * heads * size, 1, 4))),
        dx(x.size(), Real(0.5f)),  // added to
        dweight(weight.size(), Real(0.25f)),
        dgate(gate.size()),
        activation(kind) {}

  double loss() const {
    double sum = 0;
    const Vector<Real> y = rms_of(x, weight, gate, activation);
    for (size_t i = 0; i < y.size(); ++i) sum += double(y[i] * dy[i] + x[i] * Real(0.5f));
    for (const Real w : weight) sum += double(w * Real(0.25f));
    return sum;
  }
  void define() {
    const size_t n = weight.size();
    for (size_t at = 0; at < x.size(); at += n) {
      const auto part = [&](auto& all) { return std::span(all).subspan(at, n); };
      Vector<Real> act, dact(gate.empty() ? 0 : n);
      for (size_t i = at; i < at + n && !gate.empty(); ++i)
        act.push_back(reference::gate_of(activation, gate[i]));
      reference::rms_norm_backward<Real>(
          {part(x), weight, act, Real(1e-5f), part(dy), part(dx), dweight, dact});
      for (size_t i = 0; i < dact.size(); ++i)
        dgate[at + i] = dact[i] * reference::gate_derivative(activation, gate[at + i]);
    }
  }
};

TEST_P(RmsNormOf, GradientsAreTheDefinition) {
  for (const int64_t size : {1, 7, 100})
    for (const bool gated : {false, true})
      for (const auto activation : {GateActivation::silu, GateActivation::sigmoid}) {
        const int64_t rows = 37, heads = 3;
        RmsGradientCase<float> plain(rows, heads, size, gated, activation), found = plain;
        RmsGradientCase<double> truth(rows, heads, size, gated, activation);
        plain.define(), truth.define();
        const Shape shape{rows, heads * size};
        RmsNormGradient op{{found.x.data(), shape}, size, found.weight.data(), 1e-5f,
                           {found.dy.data(), shape}, {found.dx.data(), shape}, Store::add,
                           found.dweight.data()};
        if (gated) op.gate = {found.gate.data(), shape}, op.dgate = {found.dgate.data(), shape};
        op.activation = activation;
        rms_norm_backward(op, cpu());
        expect_close("dx", found.dx, plain.dx, truth.dx);
        expect_close("dweight", found.dweight, plain.dweight, truth.dweight);
        expect_close("dgate", found.dgate, plain.dgate, truth.dgate);
        const Vector<float> added = found.dx;
        op.store = Store::overwrite;
        rms_norm_backward(op, cpu());
        for (size_t i = 0; i < added.size(); ++i)
          EXPECT_NEAR(found.dx[i], added[i] - 0.5f, 1e-6f * (1 + std::abs(added[i])));
      }
}

TEST(RmsNormDefinition, GradientsAreThatOfTheLoss) {
  for (const bool gated : {false, true})
    for (const auto activation : {GateActivation::silu, GateActivation::sigmoid}) {
      RmsGradientCase<double> one(2, 2, 5, gated, activation);
      one.define();
      const auto loss = [&] { return one.loss(); };
      expect_gradient("x", one.x, one.dx, loss);
      expect_gradient("weight", one.weight, one.dweight, loss);
      expect_gradient("gate", one.gate, one.dgate, loss);
    }
}

TEST(RmsNormDefinition, L2GradientIsThatOfTheLoss) {
  Vector<double> x = normal_numbers(7, 1, 1);
  const Vector<double> dy = normal_numbers(7, 1, 2);
  for (const double eps : {1e-6, 2.0}) {
    Vector<double> dx = dy;
    reference::l2_norm_backward<double>(x, eps, 0.25, dx);
    expect_gradient("x", x, dx, [&] {
      Vector<double> y = x;
      reference::l2_norm<double>(y, eps, 0.25);
      return dot(y, dy);
    });
  }
}

TEST_P(RmsNormOf, L2GradientIsTheDefinition) {
  for (const int64_t size : {1, 5, 100}) {
    const int64_t rows = 9, channels = 2 * size;
    const Vector<double> xd = normal_numbers(rows * channels, 0.1, 1);
    const Vector<float> x = as<float>(xd);
    Vector<double> truth = normal_numbers(rows * channels, 1, 2);
    Vector<float> plain = as<float>(truth), found = plain;
    l2_norm_backward({x.data(), {rows, channels}}, size, 1e-6f, 0.25f,
                     {found.data(), {rows, channels}}, cpu());
    const auto n = size_t(size);
    for (size_t at = 0; at < found.size(); at += n) {
      reference::l2_norm_backward<float>(std::span(x).subspan(at, n), 1e-6f, 0.25f,
                                         std::span(plain).subspan(at, n));
      reference::l2_norm_backward<double>(std::span(xd).subspan(at, n), double(1e-6f), 0.25,
                                          std::span(truth).subspan(at, n));
    }
    expect_close("l2_norm_backward", found, plain, truth);
  }
}

TEST_P(RmsNormOf, GradientsOfGatedRowsAreTheDefinition) {
  const int64_t rows = 5, channels = 37;
  const Shape shape{rows, channels};
  const Vector<double> gd = normal_numbers(rows * channels, 4, 1),
                       xd = normal_numbers(rows * channels, 2, 2),
                       dyd = normal_numbers(rows * channels, 1, 3);
  const Vector<float> gate = as<float>(gd), x = as<float>(xd), dy = as<float>(dyd);
  for (const auto activation : {GateActivation::silu, GateActivation::sigmoid}) {
    Vector<float> dgate(x.size(), NAN), dx(x.size(), NAN), plain_gate, plain_x;
    Vector<double> true_gate, true_x;
    multiply_by_gate_backward({activation, {gate.data(), shape}, {x.data(), shape},
                               {dy.data(), shape}, {dgate.data(), shape}, {dx.data(), shape}},
                              cpu());
    for (size_t i = 0; i < x.size(); ++i) {
      plain_gate.push_back(dy[i] * x[i] * reference::gate_derivative(activation, gate[i]));
      plain_x.push_back(dy[i] * reference::gate_of(activation, gate[i]));
      true_gate.push_back(dyd[i] * xd[i] * reference::gate_derivative(activation, gd[i]));
      true_x.push_back(dyd[i] * reference::gate_of(activation, gd[i]));
    }
    expect_close("dgate", dgate, plain_gate, true_gate);
    expect_close("dx", dx, plain_x, true_x);
    Vector<double> moved = gd, derivative(gd.size());
    for (size_t i = 0; i < gd.size(); ++i)
      derivative[i] = dyd[i] * reference::gate_derivative(activation, gd[i]);
    expect_gradient("gate", moved, derivative, [&] {
      double sum = 0;
      for (size_t i = 0; i < moved.size(); ++i)
        sum += dyd[i] * reference::gate_of(activation, moved[i]);
      return sum;
    });
  }
}

TEST_P(RmsNormOf, WrongSizesAreNamed) {
  Vector<float> x(20);
  const View<float> rows{x.data(), {4, 5}};
  EXPECT_FAULT(rms_norm({rows, 3, x.data(), 1e-5f, rows}, cpu()), Fault::argument,
               "head size: expected a divisor of 5 channels, found 3");
  EXPECT_FAULT(multiply_by_gate(GateActivation::silu, rows, rows, {x.data(), {5, 4}}, cpu()),
               Fault::argument, "y: expected shape (4, 5), found (5, 4)");
}

INSTANTIATE_TEST_SUITE_P(Isas, RmsNormOf, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
