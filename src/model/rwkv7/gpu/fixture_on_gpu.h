// For tests: the part of an RWKV-7 that is on a GPU, so that the emulation of one can have it too; and
// its large matrices quantized, as files and as the definition have them.
#pragma once

#include "model/cpu/load_weights.h"
#include "model/rwkv7/gpu/fixture_model.h"
#include "model/rwkv7/gpu/model.h"

namespace deltasane::test {

class ModelOnGpu {
 public:
  // As in the file where no type is given.
  ModelOnGpu(const fs::path& path, const SaneChoice& sane, std::optional<kernel::WeightType> weights)
      : checkpoint_(path),
        gpu_(Rwkv7OnGpu::open(checkpoint_, checkpoint_.validate(),
                              chosen_sane(checkpoint_.sane(), sane, checkpoint_.where()),
                              {0, weights, !weights})) {}

  SequenceState fresh_state() const { return SequenceState(layout_); }
  void read(std::span<const int32_t> tokens, SequenceState& state) {
    if (tokens.empty()) return;
    const SequenceInput input{tokens, &state};
    gpu_->run({&input, 1}, {threads_}, [] {});
  }
  Tensor<float> logits_of_all(std::span<const int32_t> tokens, SequenceState& state,
                              int64_t vocabulary) {
    Tensor<float> logits({int64_t(tokens.size()), vocabulary});
    const SequenceInput input{tokens, &state, Want::all_logits, logits.view()};
    gpu_->run({&input, 1}, {threads_}, [] {});
    return logits;
  }
  uint64_t weight_bytes() const { return gpu_->weight_bytes(); }
  // A token of each.
  Tensor<float> step(std::span<const int32_t> tokens, std::span<SequenceState> states,
                     int64_t vocabulary) {
    Tensor<float> logits({int64_t(tokens.size()), vocabulary});
    std::vector<SequenceInput> batch;
    for (size_t i = 0; i < tokens.size(); ++i)
      batch.push_back({tokens.subspan(i, 1), &states[i], Want::last_logits,
                       logits.view().slice(0, int64_t(i), 1)});
    gpu_->run(batch, {threads_}, [] {});
    return logits;
  }

 private:
  Rwkv7Checkpoint checkpoint_;
  std::shared_ptr<const StateLayout> layout_ =
      std::make_shared<const StateLayout>(checkpoint_.state_layout());
  std::unique_ptr<Rwkv7OnGpu> gpu_;
  ThreadPool threads_{2};
};

// With the numbers of the blocks that a model has of its large matrices on a GPU.
inline HeldRwkv7 quantized(const TensorSource& model, kernel::WeightType type) {
  HeldRwkv7 out(model);
  for (auto& [name, numbers] : out.tensors) {
    const bool is_large =
        name.ends_with("receptance.weight") || name.ends_with("key.weight") ||
        name.ends_with("value.weight") || name.ends_with("output.weight") ||
        (name == "head.weight" && numbers.shape()[0] % 32 == 0);
    if (!is_large) continue;
    const kernel::Weights weights = load_weights(
        {std::nullopt, StoredType::f32, numbers.shape(), [&] { return numbers.clone(); }}, type,
        nullptr);
    for (int64_t i = 0; i < weights.out(); ++i)
      for (int64_t j = 0; j < weights.in(); ++j) numbers.view()(i, j) = weights.at(i, j);
  }
  return out;
}

}  // namespace deltasane::test
