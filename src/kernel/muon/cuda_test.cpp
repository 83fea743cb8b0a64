#include "kernel/muon/cuda.h"

#include <algorithm>
#include <limits>

#include "kernel/gradient_norm/cuda_test_gradient.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuMuon : public GpuOptimizerSteps {};

// In float, params are rounded to 16 bits where the kernels round them; in double nowhere.
template <class T>
T narrow(T x) {
  if constexpr (std::is_same_v<T, float>)
    return float(bf16(x));
  else
    return x;
}

template <class T>
void newton_schulz(std::span<T> u, size_t rows, size_t columns) {
  const bool transposed = rows > columns;
  const size_t n = std::min(rows, columns), m = std::max(rows, columns);
  T squares = 0;
  for (const T value : u) squares += value * value;
  const T divisor = std::sqrt(squares) + T(1e-7);
  Numbers<T> x(n * m);
  const auto place = [&](size_t i, size_t j) { return transposed ? j * n + i : i * m + j; };
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) x[i * m + j] = narrow(u[place(i, j)] / divisor);
  for (int step = 0; step < newton_schulz_steps; ++step) {
    Numbers<T> A(n * n), P(n * n), next(n * m);
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        T sum = 0;
        for (size_t k = 0; k < m; ++k) sum += x[i * m + k] * x[j * m + k];
        A[i * n + j] = narrow(sum);
      }
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) {
        T sum = 0;
        for (size_t k = 0; k < n; ++k) sum += A[i * n + k] * A[k * n + j];
        P[i * n + j] =
            narrow(T(-4.7750) * A[i * n + j] + T(2.0315) * sum + (i == j ? T(3.4445) : T(0)));
      }
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < m; ++j) {
        T sum = 0;
        for (size_t k = 0; k < n; ++k) sum += P[i * n + k] * x[k * m + j];
        next[i * m + j] = narrow(sum);
      }
    x = next;
  }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) u[place(i, j)] = x[i * m + j];
}

template <class T>
struct MuonDefinition {
  Numbers<T> w, m;
  void step(const MuonParams& n, std::span<const MuonSlot> slots, const Numbers<float>& gradient,
            double limit) {
    const T clip = clip_of<T>(gradient, limit), mu = T(n.momentum), rate = T(n.rate);
    for (const MuonSlot& slot : slots) {
      Numbers<T> u;
      const size_t offset = size_t(slot.offset), count = size_t(slot.rows * slot.columns);
      for (size_t i = offset; i < offset + count; ++i) {
        const T g = clip * T(gradient[i]);
        m[i] = mu * m[i] + g;
        u.push_back(g + mu * m[i]);
      }
      newton_schulz<T>(u, size_t(slot.rows), size_t(slot.columns));
      const T scale = T(0.2) * std::sqrt(T(std::max(slot.rows, slot.columns)));
      for (size_t i = 0; i < count; ++i) {
        T& at = w[offset + i];
        at = at - rate * T(slot.decay) * at - rate * scale * u[i];
      }
    }
  }
};

TEST_F(GpuMuon, IsThePlainLoopInBf16) {
  const MuonSlot slots[] = {{0, 64, 64, 0.1},
                            {4096, 64, 192, 0.1},
                            {4096 + 12288 + 16, 192, 64, 0},
                            {4096 + 2 * 12288 + 16, 64, 192, 0.2},
                            {4096 + 3 * 12288 + 16, 64, 64, 0},
                            {2 * 4096 + 3 * 12288 + 16, 4, 192, 0.1},
                            {2 * 4096 + 3 * 12288 + 16 + 768, 3, 64, 0}};
  const int64_t count = 2 * 4096 + 3 * 12288 + 16 + 768 + 192;
  const Numbers<float> w = random_numbers<float>(count, 1, 1), zero(size_t(count), 0.0f);
  MuonDefinition<float> plain{w, zero};
  MuonDefinition<double> truth{as<double>(w), as<double>(zero)};
  On on = begun(w);
  Products products(gpu());
  Muon muon(gpu(), slots);
  GradientClip clip(gpu(), count);
  for (int step = 1; step <= 2; ++step) {
    Numbers<float> g = random_numbers<float>(count, 0.01, uint64_t(20 + step));
    std::fill_n(g.begin() + 4096 + 12288, 16, 0.0f);
    const double limit = step == 2 ? 0.5 : 0;
    const MuonParams params{0.1, 0.95};
    on.g.upload(g, gpu());
    clip.measure(on.g.data(), limit, gpu());
    muon.step(params, clip.on_gpu(), {on.w.data(), on.copy.data(), on.g.data(), on.first.data()},
              products, gpu());
    plain.step(params, slots, g, limit);
    truth.step(params, slots, g, limit);
    expect_close("w", on.w, plain.w, truth.w);
    expect_close("momentum", on.first, plain.m, truth.m);
  }
  const Numbers<float> found = download(on.w), copy = download(on.copy);
  for (const MuonSlot& slot : slots)
    for (size_t i = size_t(slot.offset); i < size_t(slot.offset + slot.rows * slot.columns); ++i)
      ASSERT_EQ(copy[i], float(bf16(found[i]))) << i;
}

TEST_F(GpuMuon, AGradientThatIsNotFiniteChangesNothing) {
  const int64_t count = 64 * 64;
  const Numbers<float> w = random_numbers<float>(count, 1, 1);
  for (const float wrong : {float(NAN), std::numeric_limits<float>::infinity()}) {
    Numbers<float> g = random_numbers<float>(count, 1, 2);
    g[1234] = wrong;
    On on = begun(w);
    on.g.upload(g, gpu());
    GradientClip clip(gpu(), count);
    clip.measure(on.g.data(), 1.0, gpu());
    const MuonSlot slot[] = {{0, 64, 64, 0.1}};
    Products products(gpu());
    Muon muon(gpu(), slot);
    muon.step({0.1, 0.95}, clip.on_gpu(),
              {on.w.data(), on.copy.data(), on.g.data(), on.first.data()}, products, gpu());
    EXPECT_EQ(download(on.w), w);
    EXPECT_EQ(download(on.first), Numbers<float>(size_t(count), 0.0f));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
