#include "kernel/sane/cuda.h"

#include <array>

#include "base/cat.h"
#include "kernel/rows/cuda_test_rows.h"
#include "kernel/sane/reference.h"

namespace deltasane::kernel::cuda {
namespace {

using rows_definition::Reals;

class GpuTau : public GpuTest {};

TEST_F(GpuTau, IsTheDefinition) {
  for (const int64_t count : {1, 255, 1000}) {
    const Numbers<float> z = random_numbers<float>(count, 6, 4);
    const auto from = upload<float>(z);
    auto tau = poisoned<float>(count);
    tau_forward(from.data(), count, 3.0, tau.data(), gpu());
    const auto definition = [&]<class T>(T alpha) {
      Numbers<T> out;
      for (const float x : z) out.push_back(reference::tau_of(T(x), alpha));
      return out;
    };
    expect_close("tau", tau, definition(3.0f), definition(3.0));
  }
}

TEST_F(GpuTau, PerHeadIsThatOfEachAlpha) {
  constexpr int64_t count = 101, heads = 3;
  const Numbers<float> alphas{1.0f, 2.5f, 10.0f};
  for (const bool zero : {false, true}) {
    const auto z = upload<float>(zero ? Numbers<float>(count * heads, 0.0f)
                                     : random_numbers<float>(count * heads, 6, 4));
    const auto of_heads = upload<float>(alphas);
    auto tau = poisoned<float>(count * heads);
    tau_forward_per_head(zero ? nullptr : z.data(), count, heads, of_heads.data(), tau.data(),
                         gpu());
    for (int64_t head = 0; head < heads; ++head) {
      auto same = poisoned<float>(count * heads);
      tau_forward(z.data(), count * heads, double(alphas[size_t(head)]), same.data(), gpu());
      const auto found = download(tau), expected = download(same);
      for (int64_t i = head; i < count * heads; i += heads)
        EXPECT_EQ(found[size_t(i)], expected[size_t(i)]);
    }
  }
}

template <class Real>
class GpuTauGradient : public GpuTest {};
TYPED_TEST_SUITE(GpuTauGradient, Reals);

TYPED_TEST(GpuTauGradient, OfZIsTheDefinition) {
  for (const int64_t count : {1, 300}) {
    const Numbers<float> z = random_numbers<float>(count, 6, 4), dtau = random_numbers<float>(count, 1, 5);
    const auto from = this->template upload<float>(z), d = this->template upload<float>(dtau);
    auto dz = this->template poisoned<TypeParam>(count);
    tau_backward(from.data(), d.data(), count, 3.0, dz.data(), this->gpu());
    const auto definition = [&]<class T>(T alpha) {
      Numbers<T> out;
      for (size_t i = 0; i < z.size(); ++i)
        out.push_back(T(dtau[i]) * reference::tau_derivative(T(z[i]), alpha));
      return out;
    };
    this->expect_close("dz", dz, definition(3.0f), definition(3.0));
  }
}

TEST_F(GpuTau, RowsOfEndsAreAddedWhereChunksEnd) {
  constexpr int64_t sequences = 3, time = 37, channels = 5, chunk = 16, chunks = 2;
  const Numbers<float> x = random_numbers<float>(sequences * time * channels, 1, 1),
                       ends = random_numbers<float>(sequences * chunks * channels, 1, 2);
  auto to = upload<float>(x);
  add_chunk_ends({sequences, time, channels, chunk}, upload<float>(ends).data(), to.data(), gpu());
  Numbers<float> expected = x;
  for (int64_t n = 0; n < sequences; ++n)
    for (int64_t i = 0; i < chunks; ++i)
      for (int64_t c = 0; c < channels; ++c)
        expected[size_t((n * time + i * chunk + chunk - 1) * channels + c)] +=
            ends[size_t((n * chunks + i) * channels + c)];
  EXPECT_EQ(download(to), expected);
}

TEST_F(GpuTau, OfChunksWithPaddingIsUnbounded) {
  constexpr int64_t ends = 101, heads = 3;
  Numbers<uint8_t> whole(ends, 1);
  for (const size_t end : {0, 7, 100}) whole[end] = 0;
  const auto flags = upload(whole);
  auto tau = upload<float>(Numbers<float>(ends * heads, 2.0f));
  unbound_tau(flags.data(), ends, heads, tau.data(), gpu());
  const auto found = download(tau);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], whole[i / heads] ? 2.0f : unbounded_tau) << i;
}

template <class Real>
class GpuTauGradients : public GpuTest {};
TYPED_TEST_SUITE(GpuTauGradients, Reals);

// One end, odd numbers of them, several blocks' of ends and channels; few heads and many.
struct TauShape {
  int64_t ends, channels, heads;
};
const TauShape tau_shapes[] = {
    {1, 64, 1}, {7, 192, 3}, {33, 128, 40}, {600, 64, 16}, {1030, 64, 17}};

TYPED_TEST(GpuTauGradients, OfTheMixAreTheDefinition) {
  using Real = TypeParam;
  for (const auto& [ends, C, heads] : tau_shapes) {
    const Numbers<float> z = random_numbers<float>(ends * heads, 6, 1),
                         dtau = random_numbers<float>(ends * heads, 1, 2), w = random_numbers<Real>(C * heads, 1, 3);
    constexpr float alpha = 3;
    const auto definition = [&]<class T>(T) {
      Numbers<T> dz(size_t(ends * heads)), dx(size_t(ends * C));
      for (int64_t end = 0; end < ends; ++end)
        for (int64_t head = 0; head < heads; ++head) {
          const size_t at = size_t(end * heads + head);
          dz[at] = T(dtau[at]) * reference::tau_derivative(T(z[at]), T(alpha));
          for (int64_t c = 0; c < C; ++c)
            dx[size_t(end * C + c)] += dz[at] * T(w[size_t(c * heads + head)]);
        }
      return std::array{dz, dx};
    };
    const auto of_z = this->template upload<float>(z), of_tau = this->template upload<float>(dtau);
    const auto weight = this->template upload<Real>(w);
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

TYPED_TEST(GpuTauGradients, OfTheWeightsAreTheDefinition) {
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
    std::vector<LayerThere> on_gpu;
    Op op{ends, C, heads, layers, {}};
    for (int i = 0; i < layers; ++i) {
      given.push_back({random_numbers<Real>(ends * C, 1, uint64_t(10 * i)),
                       random_numbers<Real>(ends * C, 1, uint64_t(10 * i + 1)),
                       random_numbers<float>(ends * heads, 1, uint64_t(10 * i + 2)),
                       random_numbers<Real>(C * heads, 1, uint64_t(10 * i + 3))});
      const Layer& from = given.back();
      on_gpu.push_back({this->template upload<Real>(from.x), this->template upload<Real>(from.away),
                        this->template upload<Real>(from.w), this->template upload<float>(from.dz),
                        this->template upload<float>(Numbers<float>(size_t(C * heads), start)),
                        this->template upload<float>(Numbers<float>(size_t(C), start))});
      LayerThere& to = on_gpu.back();
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
      this->expect_close("dW" + of, on_gpu[size_t(i)].dw, expected[0], true_result[0]);
      this->expect_close("dmu_tau" + of, on_gpu[size_t(i)].dmu, expected[1], true_result[1]);
    }
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
