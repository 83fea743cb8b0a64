#include "kernel/adamw/cuda.h"

#include <limits>

#include "kernel/adamw/reference.h"
#include "kernel/gradient_norm/cuda_test_gradient.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuAdamw : public GpuOptimizerSteps {};

template <class T>
struct AdamwDefinition {
  Numbers<T> w, m, v;
  void step(const AdamwParams& n, std::span<const AdamwSlot> slots, const Numbers<float>& gradient,
            double limit) {
    const T clip = clip_of<T>(gradient, limit);
    for (const AdamwSlot& slot : slots) {
      const auto part = [&](Numbers<T>& all) {
        return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements));
      };
      Numbers<T> g = as<T>(gradient);
      for (T& value : g) value *= clip;
      reference::adamw_step<T>(part(w), part(g), part(m), part(v), n.step,
                               T(n.rate * slot.rate_factor), T(slot.decay), T(n.beta1), T(n.beta2),
                               T(n.epsilon));
    }
  }
};

TEST_F(GpuAdamw, IsTheDefinition) {
  const int64_t count = 16384;
  const AdamwSlot slots[] = {
      {0, 1, 0.1, 1}, {16, 37, 0, 2}, {64, 9001, 0.1, 1}, {9072, 7312, 0, 1}};
  const Numbers<float> w = random_numbers<float>(count, 1, 1), zero(size_t(count), 0.0f);
  AdamwDefinition<float> plain{w, zero, zero};
  AdamwDefinition<double> truth{as<double>(w), as<double>(zero), as<double>(zero)};
  On on = begun(w);
  const Adamw adamw(gpu(), slots);
  GradientClip clip(gpu(), count);
  for (int64_t step = 1; step <= 3; ++step) {
    const Numbers<float> g = random_numbers<float>(count, 0.01, uint64_t(10 + step));
    const double limit = step == 2 ? 0.5 : 0;
    const AdamwParams params{1e-2, 0.9, 0.99, 1e-18, step};
    on.g.upload(g, gpu());
    clip.measure(on.g.data(), limit, gpu());
    adamw.step(params, clip.on_gpu(),
               {on.w.data(), on.copy.data(), on.g.data(), on.first.data(), on.second.data()},
               gpu());
    plain.step(params, slots, g, limit);
    truth.step(params, slots, g, limit);
    expect_close("w", on.w, plain.w, truth.w);
    expect_close("m", on.first, plain.m, truth.m);
    expect_close("v", on.second, plain.v, truth.v);
  }
  const Numbers<float> found = download(on.w), copy = download(on.copy);
  for (const AdamwSlot& slot : slots)
    for (size_t i = size_t(slot.offset); i < size_t(slot.offset + slot.elements); ++i)
      ASSERT_EQ(copy[i], float(bf16(found[i]))) << i;
  EXPECT_EQ(found[1], w[1]) << "what is between slots is unchanged";
}

TEST_F(GpuAdamw, AGradientThatIsNotFiniteChangesNothing) {
  const int64_t count = 64 * 64;
  const Numbers<float> w = random_numbers<float>(count, 1, 1);
  for (const float wrong : {float(NAN), std::numeric_limits<float>::infinity()}) {
    Numbers<float> g = random_numbers<float>(count, 1, 2);
    g[1234] = wrong;
    On on = begun(w);
    on.g.upload(g, gpu());
    GradientClip clip(gpu(), count);
    clip.measure(on.g.data(), 1.0, gpu());
    EXPECT_EQ(clip.result().finite, 0);
    const AdamwSlot slot[] = {{0, count, 0.1, 1}};
    Adamw(gpu(), slot)
        .step({0.1, 0.9, 0.99, 1e-18, 1}, clip.on_gpu(),
              {on.w.data(), on.copy.data(), on.g.data(), on.first.data(), on.second.data()}, gpu());
    EXPECT_EQ(download(on.w), w);
    EXPECT_EQ(download(on.first), Numbers<float>(size_t(count), 0.0f));
    EXPECT_EQ(download(on.second), Numbers<float>(size_t(count), 0.0f));
  }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
