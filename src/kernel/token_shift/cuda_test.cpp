#include "kernel/token_shift/cuda.h"

#include <algorithm>

#include "base/cat.h"
#include "kernel/token_shift/cuda_definition.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace rows_definition;

template <class Real>
class GpuNormShift : public GpuTest {};
TYPED_TEST_SUITE(GpuNormShift, Reals);

enum class Padding { none, some };

TYPED_TEST(GpuNormShift, IsTheDefinition) {
  using Real = TypeParam;
  struct Mixing {
    int mixes;
    int64_t position;
    Padding padding;
  };
  auto all_shapes = shapes();
  all_shapes.push_back({1, 4500, 64});  // blocks with more rows than they take together
  for (const RowBlock& rows : all_shapes)
    for (const auto& [mixes, position, padding] :
         {Mixing{1, 0, Padding::none}, Mixing{1, 5, Padding::none}, Mixing{6, 0, Padding::none},
          Mixing{6, 5, Padding::none}, Mixing{1, 0, Padding::some}, Mixing{6, 5, Padding::some}}) {
        Shift<float> plain(rows, mixes, position);
        Shift<double> truth(rows, mixes, position);
        if (padding == Padding::some) plain.pad(), truth.pad();
        const int64_t C = rows.channels;
        const auto x = this->template upload<float>(plain.x);
        const auto weight = this->template upload<float>(plain.weight);
        const auto bias = this->template upload<float>(plain.bias);
        auto carried = this->template upload<float>(plain.before);  // `last` takes its place
        std::vector<GpuTensor<float>> mu;
        std::vector<GpuTensor<Real>> out;
        for (int m = 0; m <= mixes; ++m) {
          mu.push_back(this->template upload<float>(plain.mu[size_t(m)]));
          const int64_t count = m < mixes ? rows.rows() : rows.sequences * plain.chunks;
          out.push_back(this->template poisoned<Real>(count * C));
        }
        NormShift<Real> op{rows, x.data(), weight.data(), bias.data(), shift_eps};
        op.before = op.last = carried.data();
        const auto present = this->upload(plain.present);
        if (padding == Padding::some) op.present = present.data(), op.last = nullptr;
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
        if (padding == Padding::none)
          this->expect_close("last", carried, expected.last, true_result.last);
      }
}

TYPED_TEST(GpuNormShift, InTwoPartsIsTheWholeBitForBit) {
  using Real = TypeParam;
  const RowBlock rows{1, 41, 128};
  const int64_t C = rows.channels;
  const Shift<float> of(rows, 1, 0);
  const auto x = this->template upload<float>(of.x), weight = this->template upload<float>(of.weight),
             bias = this->template upload<float>(of.bias),
             mu = this->template upload<float>(of.mu[0]);
  auto whole = this->template poisoned<Real>(rows.rows() * C);
  auto parts = this->template poisoned<Real>(rows.rows() * C);
  auto last = this->template upload<float>(of.before),
       carried = this->template upload<float>(of.before);
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
  EXPECT_EQ(this->download(parts), this->download(whole));
  EXPECT_EQ(this->download(carried), this->download(last));
}

TYPED_TEST(GpuNormShift, GradientIsTheDefinition) {
  using Real = TypeParam;
  struct Mixing {
    int mixes;
    int64_t position;  // at 5 the first row ends a chunk
    Padding padding = Padding::none;
  };
  for (const RowBlock& rows : shapes())
    for (const auto& [mixes, position, padding] :
         {Mixing{1, 0}, Mixing{6, 7}, Mixing{6, 5}, Mixing{1, 0, Padding::some},
          Mixing{6, 5, Padding::some}}) {
      const bool with_tau = mixes == 6;
      const int64_t C = rows.channels;
      Shift<float> plain(rows, mixes, position);
      Shift<double> truth(rows, mixes, position);
      if (padding == Padding::some) plain.pad(), truth.pad();
      constexpr float start = 0.5f;
      std::vector<Numbers<float>> dout;
      for (int m = 0; m <= mixes; ++m) {
        dout.push_back(random_numbers<Real>(plain.rows_of(m) * C, 1, uint64_t(30 + m)));
        if (m == mixes && !with_tau) std::ranges::fill(dout.back(), 0.0f);
      }
      const auto x = this->template upload<float>(plain.x);
      const auto weight = this->template upload<float>(plain.weight);
      const auto bias = this->template upload<float>(plain.bias);
      const auto begun = [&](int64_t count) {
        return this->template upload<float>(Numbers<float>(size_t(count), start));
      };
      auto dx = begun(rows.rows() * C), dweight = begun(C), dbias = begun(C);
      auto scratch = this->template poisoned<float>(norm_shift_scratch(rows));
      std::vector<GpuTensor<float>> mu, dmu;
      std::vector<GpuTensor<Real>> d;
      for (int m = 0; m <= mixes; ++m) {
        mu.push_back(this->template upload<float>(plain.mu[size_t(m)]));
        d.push_back(this->template upload<Real>(dout[size_t(m)]));
        if (m < mixes) dmu.push_back(begun(C));
      }
      NormShiftGradient<Real> g{};
      g.op = {rows, x.data(), weight.data(), bias.data(), shift_eps};
      const auto present = this->upload(plain.present);
      if (padding == Padding::some) g.op.present = present.data();
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
      EXPECT_EQ(this->download(dx_real), rounded_to<Real>(this->download(dx)));
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

}  // namespace
}  // namespace deltasane::kernel::cuda
