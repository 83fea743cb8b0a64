// The row operations on a GPU against their definition.
#include "kernel/rwkv7/cuda.h"

#include "kernel/gpu_test_case.h"
#include "kernel/rwkv7/cuda_test_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

class GpuRows : public GpuTest {};

TEST_F(GpuRows, EmbedIsTheDefinition) {
  for (const RowBlock& rows : shapes()) {
    const int64_t C = rows.channels, vocabulary = 19;
    const Numbers<float> table = drawn<bf16>(vocabulary * C, 1, 1);
    const Numbers<float> weight = drawn<float>(C, 1, 2), bias = drawn<float>(C, 1, 3);
    Numbers<int32_t> tokens;
    for (int64_t i = 0; i < rows.rows(); ++i) tokens.push_back(int32_t(i * 7 % vocabulary));
    const auto wide = there<float>(table);
    const auto narrow = there<bf16>(table);
    const auto w = there<float>(weight), b = there<float>(bias);
    const auto t = there(tokens);
    auto x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), wide.data(), w.data(), b.data(), 1e-5f, x.data(), gpu());
    expect_close("x", x, embedded<float>(tokens, table, weight, bias),
                 embedded<double>(tokens, table, weight, bias));
    const Numbers<float> from_floats = here(x);
    x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), narrow.data(), w.data(), b.data(), 1e-5f, x.data(), gpu());
    EXPECT_EQ(here(x), from_floats) << "a table in 16 bits that is exact";
    x = poisoned<float>(rows.rows() * C);
    embed(rows, t.data(), wide.data(), nullptr, nullptr, 0, x.data(), gpu());
    const Numbers<float> plain = here(x);
    for (int64_t i = 0; i < rows.rows() * C; ++i)
      ASSERT_EQ(plain[size_t(i)], table[size_t(tokens[size_t(i / C)] * C + i % C)]) << i;
  }
}

template <class Real>
class GpuRowsOf : public GpuTest {};
using Reals = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuRowsOf, Reals);

TYPED_TEST(GpuRowsOf, LayerNormIsTheDefinition) {
  for (const RowBlock& rows : shapes()) {
    const int64_t C = rows.channels;
    const Numbers<float> x = drawn<float>(rows.rows() * C, 2, 1, 0.5);
    const Numbers<float> weight = drawn<float>(C, 1, 2), bias = drawn<float>(C, 1, 3);
    const auto from = this->template there<float>(x), w = this->template there<float>(weight),
               b = this->template there<float>(bias);
    auto y = this->template poisoned<TypeParam>(rows.rows() * C);
    layer_norm<TypeParam>(rows, from.data(), w.data(), b.data(), 1e-5f, y.data(), this->gpu());
    this->expect_close("y", y, normalized_rows<float>(x, weight, bias),
                       normalized_rows<double>(x, weight, bias));
  }
}

TYPED_TEST(GpuRowsOf, NormShiftIsTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes())
    for (const int mixes : {1, 6})
      for (const int64_t position : {0, 5}) {
        const Shift<float> plain(rows, mixes, position);
        const Shift<double> truth(rows, mixes, position);
        const int64_t C = rows.channels;
        const auto x = this->template there<float>(plain.x);
        const auto weight = this->template there<float>(plain.weight);
        const auto bias = this->template there<float>(plain.bias);
        auto carried = this->template there<float>(plain.before);  // `last` takes its place
        std::vector<GpuTensor<float>> mu;
        std::vector<GpuTensor<Real>> out;
        for (int m = 0; m <= mixes; ++m) {
          mu.push_back(this->template there<float>(plain.mu[size_t(m)]));
          const int64_t count = m < mixes ? rows.rows() : rows.sequences * plain.chunks;
          out.push_back(this->template poisoned<Real>(count * C));
        }
        NormShift<Real> op{rows, x.data(), weight.data(), bias.data(), shift_eps};
        op.before = op.last = carried.data();
        op.mixes = mixes;
        for (int m = 0; m < mixes; ++m) {
          op.mu[m] = mu[size_t(m)].data();
          op.out[m] = out[size_t(m)].data();
        }
        op.mu_tau = mu[size_t(mixes)].data(), op.out_tau = out[size_t(mixes)].data();
        auto away = this->template poisoned<Real>(rows.sequences * plain.chunks * C);
        op.away_tau = away.data();
        op.position = position, op.chunk = shift_chunk, op.chunks = plain.chunks;
        norm_shift(op, this->gpu());
        const auto expected = plain.forward();
        const auto true_result = truth.forward();
        for (int m = 0; m <= mixes; ++m)
          this->expect_close(cat("mix ", m, " of ", mixes, " at ", position, ", C ", C),
                             out[size_t(m)], expected.out[size_t(m)], true_result.out[size_t(m)]);
        this->expect_close("away", away, expected.away, true_result.away);
        this->expect_close("last", carried, expected.last, true_result.last);
      }
}

TYPED_TEST(GpuRowsOf, NormShiftInTwoPartsIsTheWholeBitForBit) {
  using Real = TypeParam;
  const RowBlock rows{1, 41, 128};
  const int64_t C = rows.channels;
  const Shift<float> of(rows, 1, 0);
  const auto x = this->template there<float>(of.x), weight = this->template there<float>(of.weight),
             bias = this->template there<float>(of.bias),
             mu = this->template there<float>(of.mu[0]);
  auto whole = this->template poisoned<Real>(rows.rows() * C);
  auto parts = this->template poisoned<Real>(rows.rows() * C);
  auto last = this->template there<float>(of.before),
       carried = this->template there<float>(of.before);
  const auto run = [&](int64_t begin, int64_t end, GpuTensor<Real>& out, float* state) {
    NormShift<Real> op{
        {1, end - begin, C}, x.data() + begin * C, weight.data(), bias.data(), shift_eps};
    op.before = op.last = state;
    op.mixes = 1, op.mu[0] = mu.data(), op.out[0] = out.data() + begin * C;
    norm_shift(op, this->gpu());
  };
  run(0, 41, whole, last.data());
  run(0, 3, parts, carried.data());
  run(3, 4, parts, carried.data());
  run(4, 41, parts, carried.data());
  EXPECT_EQ(this->here(parts), this->here(whole));
  EXPECT_EQ(this->here(carried), this->here(last));
}

TEST_F(GpuRows, ThresholdsAreTheDefinition) {
  for (const int64_t count : {1, 255, 1000}) {
    const Numbers<float> z = drawn<float>(count, 6, 4);
    const auto from = there<float>(z);
    auto tau = poisoned<float>(count);
    thresholds(from.data(), count, 3.0, tau.data(), gpu());
    const auto definition = [&]<class T>(T alpha) {
      Numbers<T> out;
      for (const float x : z)
        out.push_back(alpha * (std::max(T(x), T(0)) + std::log1p(std::exp(-std::abs(T(x))))) + 1);
      return out;
    };
    expect_close("tau", tau, definition(3.0f), definition(3.0));
  }
}

TEST_F(GpuRows, ThresholdsOfHeadsAreThoseOfEachAlpha) {
  constexpr int64_t count = 101, heads = 3;
  const Numbers<float> alphas{1.0f, 2.5f, 10.0f};
  for (const bool zero : {false, true}) {
    const auto z = there<float>(zero ? Numbers<float>(count * heads, 0.0f)
                                     : drawn<float>(count * heads, 6, 4));
    const auto of_heads = there<float>(alphas);
    auto tau = poisoned<float>(count * heads);
    thresholds_of_heads(zero ? nullptr : z.data(), count, heads, of_heads.data(), tau.data(),
                        gpu());
    for (int64_t head = 0; head < heads; ++head) {
      auto same = poisoned<float>(count * heads);
      thresholds(z.data(), count * heads, double(alphas[size_t(head)]), same.data(), gpu());
      const auto found = here(tau), expected = here(same);
      for (int64_t i = head; i < count * heads; i += heads)
        EXPECT_EQ(found[size_t(i)], expected[size_t(i)]);
    }
  }
}

TYPED_TEST(GpuRowsOf, ActivateIsTheDefinition) {
  using Real = TypeParam;
  for (const int64_t count : {1, 7, 64, 3001})
    for (const GpuActivation which :
         {GpuActivation::tanh, GpuActivation::sigmoid, GpuActivation::squared_relu}) {
      const Numbers<float> x = drawn<Real>(count, 2, 5);
      auto y = this->template there<Real>(x);
      activate(which, y.data(), count, this->gpu());
      this->expect_close("y", y, activated<float>(which, x), activated<double>(which, x));
      auto apart = this->template there<Real>(x);  // from an address that is not a multiple of 16
      if (count > 1) activate(which, apart.data() + 1, count - 1, this->gpu());
      Numbers<float> expected = this->here(y), found = this->here(apart);
      if (count == 1) continue;
      EXPECT_EQ(found[0], x[0]);
      expected[0] = found[0];
      EXPECT_EQ(found, expected);
    }
}

TYPED_TEST(GpuRowsOf, TimeMixInputsAreTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes())
    for (const bool first : {false, true}) {
      TimeMix<float, Real> plain(rows, first);
      TimeMix<double, Real> truth(rows, first);
      const int64_t n = rows.rows() * rows.channels;
      const OnGpu<Real> g(
          plain, [&](const auto& x) { return this->template there<Real>(x); },
          [&](const auto& x) { return this->template there<float>(x); });
      auto w = this->template poisoned<float>(n);
      auto a = this->template poisoned<Real>(n), b = this->template poisoned<Real>(n);
      auto k = this->template there<Real>(plain.k), v = this->template there<Real>(plain.v);
      time_mix_inputs<Real>(
          {rows, g.w.data(), g.a.data(), k.data(), v.data(), first ? nullptr : g.gate.data(),
           first ? nullptr : g.v_first.data(), g.w0.data(), g.a0.data(), g.v0.data(), g.k_k.data(),
           g.k_a.data(), w.data(), a.data(), b.data(), k.data(), v.data()},
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

TYPED_TEST(GpuRowsOf, TimeMixOutputIsTheDefinition) {
  using Real = TypeParam;
  for (const RowBlock& rows : shapes()) {
    TimeMix<float, Real> plain(rows, false);
    TimeMix<double, Real> truth(rows, false);
    const OnGpu<Real> g(
        plain, [&](const auto& x) { return this->template there<Real>(x); },
        [&](const auto& x) { return this->template there<float>(x); });
    auto y = this->template there<Real>(plain.y);
    time_mix_output<Real>({rows, y.data(), g.r.data(), g.k.data(), g.v.data(), g.g.data(),
                           g.weight.data(), g.bias.data(), g.r_k.data(), group_eps, y.data()},
                          this->gpu());
    plain.output();
    truth.output();
    this->expect_close("y", y, plain.y, truth.y);
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
