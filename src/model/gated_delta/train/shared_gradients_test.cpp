// Gradients of whole models that others made: transformers' own, and with SANE in the recurrence.
#include <gtest/gtest.h>

#include <cmath>

#include "format/npy/npy.h"
#include "format/open.h"
#include "model/gated_delta/train/layout.h"
#include "model/gated_delta/trainable.h"

namespace deltasane::gated_delta {
namespace {

struct SharedGradient {
  const char *folder, *model;
  std::optional<SaneSettings> sane;
};
const SharedGradient shared_gradients[] = {{"grads_qwen3_5", "qwen3_5", {}},
                                           {"grads_olmo_hybrid", "olmo_hybrid", {}},
                                           {"grads_sane_qwen3_5", "qwen3_5", SaneSettings{0.5, 16}}};

// The gradients of a file under our names.
Checkpoint named_as_ours(const fs::path& gradients, const fs::path& model) {
  TensorFile file = open_tensor_file(gradients);
  const TensorFile like = open_tensor_file(model);
  for (const auto& [key, value] : like.metadata()) file.metadata()[key] = value;
  for (const auto& [key, value] : like.lists()) file.lists()[key] = value;
  return Checkpoint(std::move(file));
}

class SharedGradients : public testing::TestWithParam<SharedGradient> {};

TEST_P(SharedGradients, AreThePeers) {
  const fs::path all = fs::path(DELTASANE_SHARED) / "data/family";
  const fs::path folder = all / GetParam().folder, path = all / GetParam().model;
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not here";
  std::vector<int32_t> tokens(200);
  open_npy(path / "tokens.npy").read(0, tokens);
  TrainingBatch batch{1, 199, {tokens.begin(), tokens.end() - 1}, {tokens.begin() + 1, tokens.end()},
                      std::vector<float>(199, 1)};
  const auto model = trainable.open(path, GetParam().sane);
  ThreadPool threads(1);
  std::vector<float> gradient(model->parameters().all().size());
  const double loss = model->gradient_pass({1, 199})->gradient(model->parameters().all(), batch,
                                                               {199, 0}, gradient, {threads});
  std::vector<float> expected_loss(1);
  open_npy(folder / "loss.npy").read(0, expected_loss);
  EXPECT_NEAR(loss, double(expected_loss[0]), 1e-5);

  const Checkpoint expected = named_as_ours(folder / "grads.safetensors", path);
  const bool qwen = expected.config().model_type == "qwen3_5";
  double worst = 0;
  for (const ParameterSlot& slot : model->layout().slots()) {
    if (slot.role == ParameterRole::sane) continue;  // held constant by the peer
    const Tensor<float> peer = expected.read(slot.name);
    // Norms that are stored as w for 1 + w are read with the 1 added.
    const bool one = qwen && slot.name.ends_with("norm.weight") &&
                     !slot.name.ends_with("output_norm.weight");
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < slot.elements(); ++i) {
      const double theirs = double(peer[i]) - (one ? 1 : 0);
      largest = std::max(largest, std::abs(theirs));
      difference = std::max(difference,
                            std::abs(double(gradient[size_t(slot.offset + i)]) - theirs));
    }
    worst = std::max(worst, difference / largest);
    EXPECT_LE(difference, 3e-4 * largest) << slot.name;  // docs/numerics.md
  }
  RecordProperty("worst", cat(worst));
}

INSTANTIATE_TEST_SUITE_P(Family, SharedGradients, testing::ValuesIn(shared_gradients),
                         [](const auto& one) { return std::string(one.param.folder); });

}  // namespace
}  // namespace deltasane::gated_delta
