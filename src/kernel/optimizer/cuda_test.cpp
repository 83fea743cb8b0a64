// The optimisers' steps on a GPU against plain loops.
#include "kernel/optimizer/cuda.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuOptimizer : public GpuTest {
 protected:
  struct On {
    GpuTensor<float> w, g, first, second;
    GpuTensor<bf16> copy;
  };
  On begun(const Numbers<float>& w) const {
    const Numbers<float> zero(w.size(), 0.0f);
    return {there<float>(w), there<float>(zero), there<float>(zero), there<float>(zero),
            there<bf16>(zero)};
  }
};

double length_of(const Numbers<float>& g) {
  double squares = 0;
  for (const float value : g) squares += double(value) * double(value);
  return std::sqrt(squares);
}

// What the gradient is multiplied by.
template <class T>
T clip_of(const Numbers<float>& g, double limit) {
  const double length = length_of(g);
  return limit > 0 && length > limit ? T(limit / (length + 1e-6)) : T(1);
}

TEST_F(GpuOptimizer, MeasuresTheGradient) {
  for (const int64_t count : {1, 7, 4099, 5'000'003}) {
    const Numbers<float> g = drawn<float>(count, 1, 1);
    const auto on = there<float>(g);
    GradientClip clip(gpu(), count);
    for (const double limit : {0.0, 0.5, 1e9}) {
      clip.measure(on.data(), limit, gpu());
      const GradientLength found = clip.result();
      const double rounding = double(count) * std::numeric_limits<double>::epsilon();
      EXPECT_NEAR(found.length, length_of(g), rounding * length_of(g));
      EXPECT_FLOAT_EQ(found.factor, clip_of<float>(g, limit));
      EXPECT_EQ(found.finite, 1);
    }
  }
}

template <class T>
struct AdamwDefinition {
  Numbers<T> w, m, v;
  void step(const AdamwNumbers& n, std::span<const AdamwSlot> slots, const Numbers<float>& gradient,
            double limit) {
    const T clip = clip_of<T>(gradient, limit);
    const T beta1 = T(n.beta1), beta2 = T(n.beta2);
    for (const AdamwSlot& slot : slots)
      for (size_t i = size_t(slot.offset); i < size_t(slot.offset + slot.elements); ++i) {
        const T g = clip * T(gradient[i]), rate = T(n.rate * slot.rate_factor);
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        const T mean = m[i] / (1 - std::pow(beta1, T(n.step)));
        const T square = v[i] / (1 - std::pow(beta2, T(n.step)));
        w[i] =
            w[i] - rate * T(slot.decay) * w[i] - rate * mean / (std::sqrt(square) + T(n.epsilon));
      }
  }
};

TEST_F(GpuOptimizer, AdamwIsThePlainLoop) {
  const int64_t count = 16384;
  const AdamwSlot slots[] = {
      {0, 1, 0.1, 1}, {16, 37, 0, 2}, {64, 9001, 0.1, 1}, {9072, 7312, 0, 1}};
  const Numbers<float> w = drawn<float>(count, 1, 1), zero(size_t(count), 0.0f);
  AdamwDefinition<float> plain{w, zero, zero};
  AdamwDefinition<double> truth{as<double>(w), as<double>(zero), as<double>(zero)};
  On on = begun(w);
  const Adamw adamw(gpu(), slots);
  GradientClip clip(gpu(), count);
  for (int64_t step = 1; step <= 3; ++step) {
    const Numbers<float> g = drawn<float>(count, 0.01, uint64_t(10 + step));
    const double limit = step == 2 ? 0.5 : 0;
    const AdamwNumbers numbers{1e-2, 0.9, 0.99, 1e-18, step};
    on.g.upload(g, gpu());
    clip.measure(on.g.data(), limit, gpu());
    adamw.step(numbers, clip.on_gpu(),
               {on.w.data(), on.copy.data(), on.g.data(), on.first.data(), on.second.data()},
               gpu());
    plain.step(numbers, slots, g, limit);
    truth.step(numbers, slots, g, limit);
    expect_close("w", on.w, plain.w, truth.w);
    expect_close("m", on.first, plain.m, truth.m);
    expect_close("v", on.second, plain.v, truth.v);
  }
  const Numbers<float> found = here(on.w), copy = here(on.copy);
  for (const AdamwSlot& slot : slots)
    for (size_t i = size_t(slot.offset); i < size_t(slot.offset + slot.elements); ++i)
      ASSERT_EQ(copy[i], float(bf16(found[i]))) << i;
  EXPECT_EQ(found[1], w[1]) << "what lies between slots stays";
}

TEST_F(GpuOptimizer, AGradientThatIsNotFiniteChangesNothing) {
  const int64_t count = 64 * 64;
  const Numbers<float> w = drawn<float>(count, 1, 1);
  for (const float wrong : {float(NAN), std::numeric_limits<float>::infinity()}) {
    Numbers<float> g = drawn<float>(count, 1, 2);
    g[1234] = wrong;
    On on = begun(w);
    on.g.upload(g, gpu());
    GradientClip clip(gpu(), count);
    clip.measure(on.g.data(), 1.0, gpu());
    EXPECT_EQ(clip.result().finite, 0);
    const AdamwSlot adamw_slot[] = {{0, count, 0.1, 1}};
    const MuonSlot muon_slot[] = {{0, 64, 64, 0.1}};
    Adamw(gpu(), adamw_slot)
        .step({0.1, 0.9, 0.99, 1e-18, 1}, clip.on_gpu(),
              {on.w.data(), on.copy.data(), on.g.data(), on.first.data(), on.second.data()}, gpu());
    Products products(gpu());
    Muon muon(gpu(), muon_slot);
    muon.step({0.1, 0.95}, clip.on_gpu(),
              {on.w.data(), on.copy.data(), on.g.data(), on.first.data()}, products, gpu());
    EXPECT_EQ(here(on.w), w);
    EXPECT_EQ(here(on.first), Numbers<float>(size_t(count), 0.0f));
    EXPECT_EQ(here(on.second), Numbers<float>(size_t(count), 0.0f));
  }
}

// In float, numbers are rounded to 16 bits where the kernels round them; in double nowhere.
template <class T>
T narrow(T x) {
  if constexpr (std::is_same_v<T, float>)
    return float(bf16(x));
  else
    return x;
}

template <class T>
void newton_schulz(std::span<T> u, size_t rows, size_t columns) {
  const bool turned = rows > columns;
  const size_t n = std::min(rows, columns), m = std::max(rows, columns);
  T squares = 0;
  for (const T value : u) squares += value * value;
  const T divisor = std::sqrt(squares) + T(1e-7);
  Numbers<T> x(n * m);
  const auto place = [&](size_t i, size_t j) { return turned ? j * n + i : i * m + j; };
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j) x[i * m + j] = narrow(u[place(i, j)] / divisor);
  for (int step = 0; step < 5; ++step) {
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
  void step(const MuonNumbers& n, std::span<const MuonSlot> slots, const Numbers<float>& gradient,
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

TEST_F(GpuOptimizer, MuonIsThePlainLoopInSixteenBits) {
  const MuonSlot slots[] = {{0, 64, 64, 0.1},
                            {4096, 64, 192, 0.1},
                            {4096 + 12288 + 16, 192, 64, 0},
                            {4096 + 2 * 12288 + 16, 64, 192, 0.2},
                            {4096 + 3 * 12288 + 16, 64, 64, 0}};
  const int64_t count = 2 * 4096 + 3 * 12288 + 16;
  const Numbers<float> w = drawn<float>(count, 1, 1), zero(size_t(count), 0.0f);
  MuonDefinition<float> plain{w, zero};
  MuonDefinition<double> truth{as<double>(w), as<double>(zero)};
  On on = begun(w);
  Products products(gpu());
  Muon muon(gpu(), slots);
  GradientClip clip(gpu(), count);
  for (int step = 1; step <= 2; ++step) {
    Numbers<float> g = drawn<float>(count, 0.01, uint64_t(20 + step));
    std::fill_n(g.begin() + 4096 + 12288, 16, 0.0f);
    const double limit = step == 2 ? 0.5 : 0;
    const MuonNumbers numbers{0.1, 0.95};
    on.g.upload(g, gpu());
    clip.measure(on.g.data(), limit, gpu());
    muon.step(numbers, clip.on_gpu(), {on.w.data(), on.copy.data(), on.g.data(), on.first.data()},
              products, gpu());
    plain.step(numbers, slots, g, limit);
    truth.step(numbers, slots, g, limit);
    expect_close("w", on.w, plain.w, truth.w);
    expect_close("momentum", on.first, plain.m, truth.m);
  }
  const Numbers<float> found = here(on.w), copy = here(on.copy);
  for (const MuonSlot& slot : slots)
    for (size_t i = size_t(slot.offset); i < size_t(slot.offset + slot.rows * slot.columns); ++i)
      ASSERT_EQ(copy[i], float(bf16(found[i]))) << i;
}

}  // namespace
}  // namespace deltasane::kernel::cuda
