// The gradients of the row operations on a GPU against their definition.
#include <algorithm>
#include <array>
#include <cmath>

#include "kernel/gpu_test_case.h"
#include "kernel/rwkv7/cuda.h"
#include "kernel/rwkv7/cuda_test_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

class GpuGradients : public GpuTest {};
template <class Real>
class GpuGradientsOf : public GpuTest {};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuGradientsOf, Reals);

TYPED_TEST(GpuGradientsOf, NormShiftIsTheDefinition) {
  using Real = TypeParam;
  struct Mixing {
    int mixes;
    int64_t position;  // at 5 the first row ends a chunk
  };
  for (const RowBlock& rows : shapes())
    for (const auto& [mixes, position] : {Mixing{1, 0}, Mixing{6, 7}, Mixing{6, 5}}) {
      const bool with_tau = mixes == 6;
      const int64_t C = rows.channels;
      const Shift<float> plain(rows, mixes, position);
      const Shift<double> truth(rows, mixes, position);
      constexpr float start = 0.5f;
      std::vector<Numbers<float>> dout;
      for (int m = 0; m <= mixes; ++m) {
        dout.push_back(drawn<Real>(plain.rows_of(m) * C, 1, uint64_t(30 + m)));
        if (m == mixes && !with_tau) std::ranges::fill(dout.back(), 0.0f);
      }
      const auto x = this->template there<float>(plain.x);
      const auto weight = this->template there<float>(plain.weight);
      const auto bias = this->template there<float>(plain.bias);
      const auto begun = [&](int64_t count) {
        return this->template there<float>(Numbers<float>(size_t(count), start));
      };
      auto dx = begun(rows.rows() * C), dweight = begun(C), dbias = begun(C);
      auto scratch = this->template poisoned<float>(norm_shift_scratch(rows));
      std::vector<GpuTensor<float>> mu, dmu;
      std::vector<GpuTensor<Real>> d;
      for (int m = 0; m <= mixes; ++m) {
        mu.push_back(this->template there<float>(plain.mu[size_t(m)]));
        d.push_back(this->template there<Real>(dout[size_t(m)]));
        if (m < mixes) dmu.push_back(begun(C));
      }
      NormShiftGradient<Real> g{};
      g.op = {rows, x.data(), weight.data(), bias.data(), shift_eps};
      g.op.mixes = mixes;
      for (int m = 0; m < mixes; ++m) {
        g.op.mu[m] = mu[size_t(m)].data();
        g.dout[m] = d[size_t(m)].data();
        g.dmu[m] = dmu[size_t(m)].data();
      }
      g.op.position = position, g.op.chunk = shift_chunk, g.op.chunks = plain.chunks;
      g.dx = dx.data(), g.dweight = dweight.data(), g.dbias = dbias.data();
      if (with_tau)  // the gradient is null where no chunk ends
        g.op.mu_tau = mu.back().data(), g.dout_tau = d.back().data();
      g.scratch = scratch.data();
      auto dx_real = this->template poisoned<Real>(rows.rows() * C);
      g.dx_real = dx_real.data();
      norm_shift_backward(g, this->gpu());
      EXPECT_EQ(this->here(dx_real), stored_as<Real>(this->here(dx)));
      const auto expected = plain.backward(dout, start);
      const auto true_result = truth.backward(dout, double(start));
      this->expect_close("dx", dx, expected.dx, true_result.dx);
      this->expect_close("dweight", dweight, expected.dweight, true_result.dweight);
      this->expect_close("dbias", dbias, expected.dbias, true_result.dbias);
      for (int m = 0; m < mixes; ++m)
        this->expect_close(cat("dmu ", m, " of ", mixes, ", C ", C), dmu[size_t(m)],
                           expected.dmu[size_t(m)], true_result.dmu[size_t(m)]);
    }
}

// One end, odd numbers of them, several blocks' of ends and channels; few heads and many.
struct TauShape {
  int64_t ends, channels, heads;
};
const TauShape tau_shapes[] = {
    {1, 64, 1}, {7, 192, 3}, {33, 128, 40}, {600, 64, 16}, {1030, 64, 17}};

TYPED_TEST(GpuGradientsOf, TauMixIsTheDefinition) {
  using Real = TypeParam;
  for (const auto& [ends, C, heads] : tau_shapes) {
    const Numbers<float> z = drawn<float>(ends * heads, 6, 1),
                         dtau = drawn<float>(ends * heads, 1, 2), w = drawn<Real>(C * heads, 1, 3);
    constexpr float alpha = 3;
    const auto definition = [&]<class T>(T) {
      Numbers<T> dz(size_t(ends * heads)), dx(size_t(ends * C));
      for (int64_t end = 0; end < ends; ++end)
        for (int64_t head = 0; head < heads; ++head) {
          const size_t at = size_t(end * heads + head);
          dz[at] = T(dtau[at]) * T(alpha) / (1 + std::exp(-T(z[at])));
          for (int64_t c = 0; c < C; ++c)
            dx[size_t(end * C + c)] += dz[at] * T(w[size_t(c * heads + head)]);
        }
      return std::array{dz, dx};
    };
    const auto of_z = this->template there<float>(z), of_tau = this->template there<float>(dtau);
    const auto weight = this->template there<Real>(w);
    auto dz = this->template poisoned<float>(ends * heads);
    auto dx = this->template poisoned<Real>(ends * C);
    tau_mix_backward<Real>({.ends = ends,
                            .channels = C,
                            .heads = heads,
                            .alpha = alpha,
                            .z = of_z.data(),
                            .dtau = of_tau.data(),
                            .weight = weight.data(),
                            .dz = dz.data(),
                            .dx_tau = dx.data()},
                           this->gpu());
    const auto expected = definition(0.0f);
    const auto true_result = definition(0.0);
    const std::string of = cat(" of ", ends, " ends, ", heads, " heads");
    this->expect_close("dz" + of, dz, expected[0], true_result[0]);
    this->expect_close("dx_tau" + of, dx, expected[1], true_result[1]);
  }
}

TYPED_TEST(GpuGradientsOf, TauWeightsAreTheDefinition) {
  using Real = TypeParam;
  using Op = TauWeightsGradient<Real>;
  for (const auto& [ends, C, heads] : tau_shapes) {
    struct Layer {
      Numbers<float> x, away, dz, w;
    };
    struct LayerThere {
      GpuTensor<Real> x, away, w;
      GpuTensor<float> dz, dw, dmu;
    };
    const int layers = ends < 100 ? Op::most_layers : 2;
    constexpr float start = 0.5f;
    std::vector<Layer> given;
    std::vector<LayerThere> lie;
    Op op{ends, C, heads, layers, {}};
    for (int i = 0; i < layers; ++i) {
      given.push_back({drawn<Real>(ends * C, 1, uint64_t(10 * i)),
                       drawn<Real>(ends * C, 1, uint64_t(10 * i + 1)),
                       drawn<float>(ends * heads, 1, uint64_t(10 * i + 2)),
                       drawn<Real>(C * heads, 1, uint64_t(10 * i + 3))});
      const Layer& from = given.back();
      lie.push_back({this->template there<Real>(from.x), this->template there<Real>(from.away),
                     this->template there<Real>(from.w), this->template there<float>(from.dz),
                     this->template there<float>(Numbers<float>(size_t(C * heads), start)),
                     this->template there<float>(Numbers<float>(size_t(C), start))});
      LayerThere& to = lie.back();
      op.layer[i] = {to.x.data(), to.away.data(), to.dz.data(),
                     to.w.data(), to.dw.data(),   to.dmu.data()};
    }
    tau_weights_backward(op, this->gpu());
    for (int i = 0; i < layers; ++i) {
      const Layer& from = given[size_t(i)];
      const auto definition = [&]<class T>(T begun) {
        Numbers<T> dw(size_t(C * heads), begun), dmu(size_t(C), begun);
        for (int64_t end = 0; end < ends; ++end)
          for (int64_t c = 0; c < C; ++c) {
            const size_t at = size_t(end * C + c);
            T dx = 0;
            for (int64_t head = 0; head < heads; ++head) {
              const T dz = T(from.dz[size_t(end * heads + head)]);
              dx += dz * T(from.w[size_t(c * heads + head)]);
              dw[size_t(c * heads + head)] += T(from.x[at]) * dz;
            }
            dmu[size_t(c)] += dx * T(from.away[at]);
          }
        return std::array{dw, dmu};
      };
      const auto expected = definition(start);
      const auto true_result = definition(double(start));
      const std::string of = cat(" of layer ", i, ", ", ends, " ends, ", heads, " heads");
      this->expect_close("dW" + of, lie[size_t(i)].dw, expected[0], true_result[0]);
      this->expect_close("dmu_tau" + of, lie[size_t(i)].dmu, expected[1], true_result[1]);
    }
  }
}

TYPED_TEST(GpuGradientsOf, TimeMixInputsAreTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes())
    for (const bool first : {false, true}) {
      TimeMix<float, Real> plain(rows, first);
      TimeMix<double, Real> truth(rows, first);
      const int64_t n = rows.rows() * rows.channels;
      const auto floats = [&](const auto& x) { return this->template there<float>(x); };
      const auto real = [&](const auto& x) { return this->template there<Real>(x); };
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
      g.op.k_k = o.k_k.data(), g.op.k_a = o.k_a.data();
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

TYPED_TEST(GpuGradientsOf, TimeMixOutputIsTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes()) {
    TimeMix<float, Real> plain(rows, false);
    TimeMix<double, Real> truth(rows, false);
    const int64_t n = rows.rows() * rows.channels;
    const auto floats = [&](const auto& x) { return this->template there<float>(x); };
    const auto real = [&](const auto& x) { return this->template there<Real>(x); };
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

TYPED_TEST(GpuGradientsOf, ActivateIsTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 3001})
    for (const GpuActivation which :
         {GpuActivation::tanh, GpuActivation::sigmoid, GpuActivation::squared_relu}) {
      const Numbers<float> y = stored_as<Real>(activated<float>(which, drawn<Real>(count, 2, 5)));
      const Numbers<float> dy = drawn<Real>(count, 1, 6);
      const auto definition = [&]<class T>(T one) {
        Numbers<T> dx;
        for (size_t i = 0; i < y.size(); ++i) {
          const T at = T(y[i]);
          const T slope = which == GpuActivation::tanh      ? one - at * at
                          : which == GpuActivation::sigmoid ? at * (one - at)
                                                            : 2 * std::sqrt(at);
          dx.push_back(T(dy[i]) * slope);
        }
        return dx;
      };
      const auto left = this->template there<Real>(y);
      auto d = this->template there<Real>(dy);
      activate_backward(which, left.data(), d.data(), count, this->gpu());
      this->expect_close("dx", d, definition(1.0f), definition(1.0));
    }
}

TYPED_TEST(GpuGradientsOf, AddRowsAdds) {
  using Real = TypeParam;
  for (const int64_t count : {517, 1003}) {
    const Numbers<float> from = drawn<float>(count, 1, 1), to = drawn<Real>(count, 1, 2);
    const auto a = this->template there<float>(from);
    auto b = this->template there<Real>(to);
    add_rows(a.data(), b.data(), count, this->gpu());
    Numbers<float> expected;
    for (size_t i = 0; i < from.size(); ++i) expected.push_back(to[i] + from[i]);
    EXPECT_EQ(this->here(b), stored_as<Real>(expected));
  }
}

// Rows are added in their order, so the sums are those of a plain loop, bit for bit.
TEST_F(GpuGradients, EmbedIsAPlainLoop) {
  for (const RowBlock& rows : {RowBlock{1, 1, 64}, RowBlock{3, 11, 192}, RowBlock{2, 2500, 64}}) {
    const int64_t C = rows.channels;
    for (const int64_t vocabulary : {3, 1500}) {
      Random random(5);
      Numbers<int32_t> tokens;
      for (int64_t i = 0; i < rows.rows(); ++i)
        tokens.push_back(int32_t(random.below(uint64_t(vocabulary))));
      const Numbers<float> d = drawn<float>(rows.rows() * C, 1, 1);
      Numbers<float> expected = drawn<float>(vocabulary * C, 1, 2);
      const auto t = there(tokens);
      const auto dx = there<float>(d);
      auto dtable = there<float>(expected);
      GpuTensor<int32_t> scratch(gpu(), {embed_scratch(rows, vocabulary)}, "a test");
      embed_backward(rows, t.data(), vocabulary, dx.data(), dtable.data(), scratch.data(), gpu());
      for (int64_t i = 0; i < rows.rows() * C; ++i)
        expected[size_t(tokens[size_t(i / C)] * C + i % C)] += d[size_t(i)];
      EXPECT_EQ(here(dtable), expected) << rows.rows() << " rows, " << vocabulary << " tokens";
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
