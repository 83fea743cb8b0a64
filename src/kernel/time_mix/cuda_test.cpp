#include "kernel/time_mix/cuda.h"

#include "kernel/time_mix/cuda_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuTimeMix : public GpuTest {};
TYPED_TEST_SUITE(GpuTimeMix, Reals);

TYPED_TEST(GpuTimeMix, InputsAreTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes())
    for (const auto& [first, key_norm] : input_cases) {
      TimeMix<float, Real> plain(rows, first);
      TimeMix<double, Real> truth(rows, first);
      plain.key_norm = truth.key_norm = key_norm;
      const int64_t n = rows.rows() * rows.channels;
      const OnGpu<Real> g(
          plain, [&](const auto& x) { return this->template upload<Real>(x); },
          [&](const auto& x) { return this->template upload<float>(x); });
      auto w = this->template poisoned<float>(n);
      auto a = this->template poisoned<Real>(n), b = this->template poisoned<Real>(n);
      auto k = this->template upload<Real>(plain.k), v = this->template upload<Real>(plain.v);
      time_mix_inputs<Real>(
          {rows, g.w.data(), g.a.data(), k.data(), v.data(), first ? nullptr : g.gate.data(),
           first ? nullptr : g.v_first.data(), g.w0.data(), g.a0.data(), g.v0.data(), g.k_k.data(),
           g.k_a.data(), w.data(), a.data(), b.data(), k.data(), v.data(), key_norm},
          this->gpu());
      plain.inputs();
      truth.inputs();
      this->expect_close("w", w, plain.w, truth.w);
      this->expect_close("a", a, plain.a, truth.a);
      this->expect_close("b", b, plain.b, truth.b);
      this->expect_close("k", k, plain.k, truth.k);
      this->expect_close("v", v, plain.v, truth.v);
    }
}

TYPED_TEST(GpuTimeMix, OutputIsTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes()) {
    TimeMix<float, Real> plain(rows, false);
    TimeMix<double, Real> truth(rows, false);
    const OnGpu<Real> g(
        plain, [&](const auto& x) { return this->template upload<Real>(x); },
        [&](const auto& x) { return this->template upload<float>(x); });
    auto y = this->template upload<Real>(plain.y);
    time_mix_output<Real>({rows, y.data(), g.r.data(), g.k.data(), g.v.data(), g.g.data(),
                           g.weight.data(), g.bias.data(), g.r_k.data(), group_eps, y.data()},
                          this->gpu());
    plain.output();
    truth.output();
    this->expect_close("y", y, plain.y, truth.y);
  }
}

TYPED_TEST(GpuTimeMix, GradientsOfTheInputsAreTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes())
    for (const auto& [first, key_norm] : input_cases) {
      TimeMix<float, Real> plain(rows, first);
      TimeMix<double, Real> truth(rows, first);
      plain.key_norm = truth.key_norm = key_norm;
      const int64_t n = rows.rows() * rows.channels;
      const auto floats = [&](const auto& x) { return this->template upload<float>(x); };
      const auto real = [&](const auto& x) { return this->template upload<Real>(x); };
      const OnGpu<Real> o(plain, real, floats);
      const auto dw = floats(plain.dw), dbonus = floats(plain.dbonus);
      auto dr = real(plain.dr), da = real(plain.da), db = real(plain.db), dk = real(plain.dk),
           dv = real(plain.dv);
      const auto dv_bonus = real(plain.dv_bonus);
      auto dgate = this->template poisoned<Real>(first ? 0 : n);
      auto draw_w = this->template poisoned<Real>(n);
      auto dv_first = floats(plain.dv_first), dw0 = floats(plain.dw0), da0 = floats(plain.da0),
           dv0 = floats(plain.dv0), dk_k = floats(plain.dk_k), dk_a = floats(plain.dk_a);
      auto scratch = this->template poisoned<float>(time_mix_scratch(rows));
      TimeMixInputsGradient<Real> g{};
      g.op.rows = rows;
      g.op.raw_w = o.w.data(), g.op.raw_a = o.a.data(), g.op.raw_k = o.k.data();
      g.op.raw_v = o.v.data();
      if (!first) {
        g.op.gate = o.gate.data(), g.op.v_first = o.v_first.data();
        g.dgate = dgate.data(), g.dv_first = dv_first.data();
      }
      g.op.w0 = o.w0.data(), g.op.a0 = o.a0.data(), g.op.v0 = o.v0.data();
      g.op.k_k = o.k_k.data(), g.op.k_a = o.k_a.data(), g.op.key_norm = key_norm;
      g.dw = dw.data(), g.draw_w = draw_w.data(), g.dr = g.draw_r = dr.data();
      g.dbonus = dbonus.data(), g.dv_bonus = dv_bonus.data();
      g.r = o.r.data(), g.r_k = o.r_k.data();
      g.da = g.draw_a = da.data(), g.dk = g.draw_k = dk.data(), g.dv = g.draw_v = dv.data();
      g.db = db.data();
      g.dw0 = dw0.data(), g.da0 = da0.data(), g.dv0 = dv0.data(), g.dk_k = dk_k.data();
      g.dk_a = dk_a.data(), g.scratch = scratch.data();
      time_mix_inputs_backward(g, this->gpu());
      plain.inputs_backward();
      truth.inputs_backward();
      this->expect_close("dr", dr, plain.dr, truth.dr);
      this->expect_close("dw", draw_w, plain.dw, truth.dw);
      this->expect_close("da", da, plain.da, truth.da);
      this->expect_close("dk", dk, plain.dk, truth.dk);
      this->expect_close("dv", dv, plain.dv, truth.dv);
      this->expect_close("dw0", dw0, plain.dw0, truth.dw0);
      this->expect_close("da0", da0, plain.da0, truth.da0);
      this->expect_close("dk_k", dk_k, plain.dk_k, truth.dk_k);
      this->expect_close("dk_a", dk_a, plain.dk_a, truth.dk_a);
      this->expect_close("dv0", dv0, plain.dv0, truth.dv0);
      if (first) continue;
      this->expect_close("dgate", dgate, plain.dgate, truth.dgate);
      this->expect_close("dv_first", dv_first, plain.dv_first, truth.dv_first);
    }
}

TYPED_TEST(GpuTimeMix, GradientsOfTheOutputAreTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes()) {
    TimeMix<float, Real> plain(rows, false);
    TimeMix<double, Real> truth(rows, false);
    const int64_t n = rows.rows() * rows.channels;
    const auto floats = [&](const auto& x) { return this->template upload<float>(x); };
    const auto real = [&](const auto& x) { return this->template upload<Real>(x); };
    const OnGpu<Real> o(plain, real, floats);
    auto dy = real(plain.dy);
    auto dbonus = this->template poisoned<float>(n / 64);
    auto dv = this->template poisoned<Real>(n), dg = this->template poisoned<Real>(n);
    auto dweight = floats(plain.dweight), dbias = floats(plain.dbias), dr_k = floats(plain.dr_k);
    auto scratch = this->template poisoned<float>(time_mix_scratch(rows));
    TimeMixOutputGradient<Real> g{};
    g.op.rows = rows;
    g.op.read = o.y.data(), g.op.r = o.r.data(), g.op.k = o.k.data(), g.op.v = o.v.data();
    g.op.g = o.g.data(), g.op.weight = o.weight.data(), g.op.bias = o.bias.data();
    g.op.r_k = o.r_k.data(), g.op.eps = group_eps;
    g.dy = g.dread = dy.data();
    g.dbonus = dbonus.data(), g.dv_bonus = dv.data(), g.dg = dg.data();
    g.dweight = dweight.data(), g.dbias = dbias.data(), g.dr_k = dr_k.data();
    g.scratch = scratch.data();
    time_mix_output_backward(g, this->gpu());
    plain.output_backward();
    truth.output_backward();
    this->expect_close("dy", dy, plain.dy, truth.dy);
    this->expect_close("dbonus", dbonus, plain.dbonus, truth.dbonus);
    for (size_t i = 0; i < truth.dr.size(); ++i) {  // all that the definition has of them
      const double by = truth.dbonus[i / 64] * truth.r_k[i % truth.r_k.size()];
      ASSERT_NEAR(by * truth.k[i], truth.dr[i], 1e-12);
      ASSERT_NEAR(by * truth.r[i], truth.dk[i], 1e-12);
    }
    this->expect_close("dv", dv, plain.dv, truth.dv);
    this->expect_close("dg", dg, plain.dg, truth.dg);
    this->expect_close("dweight", dweight, plain.dweight, truth.dweight);
    this->expect_close("dbias", dbias, plain.dbias, truth.dbias);
    this->expect_close("dr_k", dr_k, plain.dr_k, truth.dr_k);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
