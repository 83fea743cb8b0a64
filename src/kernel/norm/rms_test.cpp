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
