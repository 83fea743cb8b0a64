#include "toy/fixture.h"

#include <algorithm>

#include "base/random.h"

namespace deltasane::toy {
namespace {

class RandomTensors : public TensorSource {
 public:
  explicit RandomTensors(const Plan& plan) {
    uint64_t stream = 0;
    each_tensor(plan.sizes, [&](const std::string& name, const Shape& shape) {
      tensors_.emplace(name, random_tensor(shape, plan.seed, stream++));
    });
    for (int64_t n = 0; n < int64_t(plan.sizes.layers.size()); ++n) {
      int64_t head = 0;
      for (size_t m = 0; m < plan.sizes.layers[size_t(n)].memories.size(); ++m)
        for (float& decay : tensors_.at(memory_tensor(n, m, "decay")).span()) {
          const auto planned = plan.decays.find({n, head++});
          decay = float(planned == plan.decays.end() ? 0.98 : planned->second);
        }
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, tensor] : tensors_) all.push_back(name);
    return all;
  }
  bool has(std::string_view name) const override { return tensors_.contains(std::string(name)); }
  Shape shape(std::string_view name) const override { return of(name).shape(); }
  Tensor<float> read(std::string_view name) const override { return of(name).clone(); }

 private:
  const Tensor<float>& of(std::string_view name) const { return tensors_.at(std::string(name)); }
  std::map<std::string, Tensor<float>> tensors_;
};

}  // namespace

Sizes mixed_sizes() {
  Sizes sizes;
  sizes.channels = 8;
  sizes.layers = {{.taps = 3, .memories = {{2, 6, 4}}},
                  {.cache = 5},
                  {.memories = {{3, 5, 3}, {1, 2, 7}}}};
  return sizes;
}

void write_toy(const fs::path& path, const Plan& plan) {
  Plan whole = plan;
  whole.sizes.sane = plan.sane.has_value();
  write(path, whole.sizes, RandomTensors(whole), StoredType::f32,
        sane_metadata(plan.sane));
}

OpenToy::OpenToy(const Plan& plan, const SaneChoice& sane) {
  write_toy(path, plan);
  OpenOptions options;
  options.sane = sane;
  model = open_model(path, options);
}

std::vector<float> OpenToy::logits_after(std::span<const int32_t> tokens,
                                         SequenceState& state) const {
  std::vector<float> logits(static_cast<size_t>(model->vocabulary()));
  model->forward({tokens, &state, Want::last_logits, {logits.data(), {1, model->vocabulary()}}},
                 cpu);
  return logits;
}

std::vector<int32_t> random_bytes(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> bytes(static_cast<size_t>(count));
  for (int32_t& byte : bytes) byte = int32_t(random.below(256));
  return bytes;
}

bool same_bits(const SequenceState& a, const SequenceState& b) {
  const auto equal = [](std::span<const float> one, std::span<const float> other) {
    return std::ranges::equal(std::as_bytes(one), std::as_bytes(other));
  };
  bool same = a.position == b.position && a.alphas == b.alphas && a.layout() == b.layout();
  for (const StatePart& part : a.layout().parts()) same = same && equal(a.of(part), b.of(part));
  return same;
}

}  // namespace deltasane::toy
