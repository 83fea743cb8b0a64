// The training step in bf16 on a GPU near its definition, tensor by tensor.
#include <gtest/gtest.h>

#include <cmath>

#include "model/rwkv7/reference/reference.h"
#include "model/rwkv7/train/gpu/fixture.h"

namespace deltasane::rwkv7 {
namespace {

std::span<const double> part(const std::vector<double>& all, const ParameterSlot& slot) {
  return std::span(all).subspan(size_t(slot.offset), size_t(slot.elements()));
}

// The yardstick is how far the gradient moves when the matrices alone are rounded to bf16 once:
// what one rounding costs in this very model. The longest path through a layer has 24 of them (10
// forward, 13 back, the matrices'), the head has 4. Independent errors add up as squares; twice
// that is allowed.
TEST(GpuGradientInBf16, IsOffByItsRoundings) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no CUDA device";
  const Rwkv7Shape shape = test::gpu_shape(true);
  const SaneSettings sane{1.0, 16};
  const Parameters model = test::random_parameters(shape, 5, sane);
  const TrainingBatch batch = test::random_batch(shape, 2, 37);
  const LossSettings settings{batch.weight_total(), 0};
  std::vector<double> exact(model.all().begin(), model.all().end()), rounded = exact;
  for (const ParameterSlot& slot : model.layout().slots())
    if (is_product(slot.role) || (slot.role == ParameterRole::sane && slot.shape.rank() == 2))
      for (int64_t i = slot.offset; i < slot.offset + slot.elements(); ++i)
        rounded[size_t(i)] = double(float(bf16(float(rounded[size_t(i)]))));
  std::vector<double> truth(exact.size()), moved(exact.size());
  const auto true_loss =
      deltasane::reference::training_loss<double>(shape, sane, exact, batch, settings, truth);
  deltasane::reference::training_loss<double>(shape, sane, rounded, batch, settings, moved);
  const test::GpuResult result =
      test::gradient_on_gpu<bf16>(shape, model, batch, settings, Activations::keep);
  const std::vector<double> found(result.gradient.begin(), result.gradient.end());
  const double roundings = double(24 * shape.layers + 4);
  for (const ParameterSlot& slot : model.layout().slots()) {
    const double allowed =
        2 * std::sqrt(roundings) * test::distance(part(moved, slot), part(truth, slot));
    EXPECT_LE(test::distance(part(found, slot), part(truth, slot)), allowed) << slot.name;
  }
  EXPECT_NEAR(result.loss, true_loss.cross_entropy,
              std::sqrt(roundings) * true_loss.cross_entropy / 256);
}

}  // namespace
}  // namespace deltasane::rwkv7
