// The definition of the time mix's gradients against central differences in double, and the kernels
// against the definition.
#include <span>
#include <utility>

#include "kernel/rows/row_test_case.h"
#include "kernel/time_mix/reference.h"
#include "kernel/time_mix/time_mix.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

// The operands of time_mix_inputs and time_mix_output, for a few rows. Gradients that are added to
// begin as 0.
template <class Real>
struct TimeMixOperands {
  int64_t rows, heads, size;
  KeyNorm key_norm{};
  Vector<Real> w, a, b, k, v, gate, v_first, r, g, y;    // (rows, C)
  Vector<Real> w0, a0, v0, k_k, k_a, weight, bias, r_k;  // (C)
  Vector<Real> dw, da, db, dk, dv, dgate, dv_first, dr, dg, dy;
  Vector<Real> dw0, da0, dv0, dk_k, dk_a, dweight, dbias, dr_k;

  TimeMixOperands(int64_t rows_, int64_t heads_, int64_t size_)
      : rows(rows_), heads(heads_), size(size_) {
    const int64_t c = heads * size, n = rows * c;
    uint64_t stream = 1;
    for (auto* x : {&w, &a, &b, &k, &v, &gate, &v_first, &r, &g, &y, &dw, &da, &db, &dk, &dv, &dy})
      *x = as<Real>(normal_numbers(n, 1, stream++));
    for (auto* x : {&w0, &a0, &v0, &k_k, &k_a, &weight, &bias, &r_k})
      *x = as<Real>(normal_numbers(c, 1, stream++));
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
                                        row(gate, i), row(v_first, i), w0, a0, v0, k_k, k_a,
                                        key_norm});
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
                                                 dk_a,
                                                 key_norm});
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

// The first layer or another, and how keys are normalized: with an addend that shows.
const std::pair<bool, KeyNorm> gradient_cases[] = {{false, {}}, {true, {}}, {false, {2.0f, 0}}};

TEST(TimeMixDefinition, GradientOfTheInputsIsThatOfCentralDifferences) {
  for (const auto& [first, key_norm] : gradient_cases) {
    TimeMixOperands<double> o(3, 2, 5);
    o.key_norm = key_norm;
    if (first) o.first_layer();
    TimeMixOperands<double> found = o;
    found.inputs_backward();
    const auto loss = [&] {
      TimeMixOperands<double> p = o;
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

TEST(TimeMixDefinition, GradientOfTheOutputIsThatOfCentralDifferences) {
  TimeMixOperands<double> o(3, 2, 5);
  TimeMixOperands<double> found = o;
  found.output_backward();
  const auto loss = [&] {
    TimeMixOperands<double> p = o;
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

class TimeMixGradients : public RowTest {};

TEST_P(TimeMixGradients, AreTheDefinition) {
  for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{3, 64}, {2, 16}, {1, 40}})
    for (const auto& [first, key_norm] : gradient_cases) {
      const int64_t rows = 41;
      TimeMixOperands<float> found(rows, heads, size);
      TimeMixOperands<double> truth(rows, heads, size);
      found.key_norm = truth.key_norm = key_norm;
      if (first) found.first_layer(), truth.first_layer();
      TimeMixOperands<float> plain = found;
      const Shape shape{rows, heads * size};
      const auto view = [&](Vector<float>& x) {
        return x.empty() ? View<float>() : View<float>{x.data(), shape};
      };
      TimeMixOperands<float>& o = found;
      time_mix_inputs_backward(
          {size,         view(o.w),       view(o.a),     view(o.k),        view(o.v),
           view(o.gate), view(o.v_first), o.w0.data(),   o.a0.data(),      o.v0.data(),
           o.k_k.data(), o.k_a.data(),    view(o.dw),    view(o.da),       view(o.dk),
           view(o.dv),   view(o.db),      view(o.dgate), view(o.dv_first), o.dw0.data(),
           o.da0.data(), o.dv0.data(),    o.dk_k.data(), o.dk_a.data(),    key_norm},
          cpu());
      plain.inputs_backward();
      truth.inputs_backward();
      expect_close("dw", o.dw, plain.dw, truth.dw);
      expect_close("da", o.da, plain.da, truth.da);
      expect_close("dk", o.dk, plain.dk, truth.dk);
      expect_close("dv", o.dv, plain.dv, truth.dv);
      expect_close("dgate", o.dgate, plain.dgate, truth.dgate);
      expect_close("dv_first", o.dv_first, plain.dv_first, truth.dv_first);
      expect_close("dw0", o.dw0, plain.dw0, truth.dw0);
      expect_close("da0", o.da0, plain.da0, truth.da0);
      expect_close("dv0", o.dv0, plain.dv0, truth.dv0);
      expect_close("dk_k", o.dk_k, plain.dk_k, truth.dk_k);
      expect_close("dk_a", o.dk_a, plain.dk_a, truth.dk_a);

      time_mix_output_backward(
          {size, view(o.y), view(o.r), view(o.k), view(o.v), view(o.g), o.weight.data(),
           o.bias.data(), o.r_k.data(), 64e-5f, view(o.dy), view(o.dr), view(o.dk), view(o.dv),
           view(o.dg), o.dweight.data(), o.dbias.data(), o.dr_k.data()},
          cpu());
      plain.output_backward();
      truth.output_backward();
      expect_close("dy", o.dy, plain.dy, truth.dy);
      expect_close("dr", o.dr, plain.dr, truth.dr);
      expect_close("dk of the bonus", o.dk, plain.dk, truth.dk);
      expect_close("dv of the bonus", o.dv, plain.dv, truth.dv);
      expect_close("dg", o.dg, plain.dg, truth.dg);
      expect_close("dweight", o.dweight, plain.dweight, truth.dweight);
      expect_close("dbias", o.dbias, plain.dbias, truth.dbias);
      expect_close("dr_k", o.dr_k, plain.dr_k, truth.dr_k);
    }
}

TEST(TimeMixGradientLaws, DoNotDependOnTheNumberOfThreads) {
  const int64_t rows = 100, heads = 2, size = 16;
  TimeMixOperands<float> one(rows, heads, size), three = one;
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

INSTANTIATE_TEST_SUITE_P(Isas, TimeMixGradients, testing::ValuesIn(float_isas), isa_name);

}  // namespace
}  // namespace deltasane::kernel
