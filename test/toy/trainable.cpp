#include "toy/trainable.h"

#include <numeric>

#include "format/open.h"
#include "toy/model.h"
#include "toy/training_loss.h"

namespace deltasane::toy {
namespace {

ParameterRole role_of(std::string_view name) {
  if (name == "embedding.weight") return ParameterRole::embedding;
  if (name == "head.weight") return ParameterRole::head;
  if (name.ends_with(".decay")) return ParameterRole::decay_bias;
  if (name.ends_with(".convolution")) return ParameterRole::vector;
  if (name.ends_with(".tau")) return ParameterRole::sane;
  return ParameterRole::matrix;
}

// Sequences are computed beside each other and added up in their order.
class ToyGradientPass : public GradientPass {
 public:
  ToyGradientPass(const Sizes& sizes, const std::optional<SaneSettings>& sane,
                  const PassSettings& settings)
      : sizes_(sizes),
        layout_(parameter_layout(sizes)),
        buckets_(layout_),
        sane_(sane),
        settings_(settings) {}

  double gradient(std::span<const float> parameters, const TrainingBatch& batch,
                  const LossSettings& settings, std::span<float> gradient, const kernel::Cpu& cpu,
                  const GradientReady& ready) override {
    std::vector<std::vector<double>> gradients(static_cast<size_t>(batch.sequences),
                                               std::vector<double>(parameters.size()));
    const double loss = run(parameters, batch, settings, gradients, cpu);
    for (size_t i = 0; i < gradient.size(); ++i) {
      double sum = 0;
      for (const std::vector<double>& one : gradients) sum += one[i];
      gradient[i] += float(sum);
    }
    for (auto bucket = int64_t(sizes_.layers.size()); bucket >= 0; --bucket)
      buckets_.report(bucket, gradient.data(), ready);
    return loss;
  }
  double loss(std::span<const float> parameters, const TrainingBatch& batch,
              const LossSettings& settings, const kernel::Cpu& cpu) override {
    return run(parameters, batch, settings, {}, cpu);
  }
  double recurrence_seconds() const override { return 0; }
  uint64_t bytes() const override { return 0; }  // nothing is kept between calls

 private:
  double run(std::span<const float> parameters, const TrainingBatch& batch,
             const LossSettings& settings, std::span<std::vector<double>> gradients,
             const kernel::Cpu& cpu) const {
    batch.expect(settings_.sequences, settings_.time, sizes_.vocabulary);
    const std::vector<double> values(parameters.begin(), parameters.end());
    std::vector<double> losses(static_cast<size_t>(batch.sequences));
    cpu.threads.parallel(batch.sequences, [&](int64_t i) {
      losses[size_t(i)] =
          training_loss({sizes_, layout_, sane_}, values, batch, i, settings,
                        gradients.empty() ? std::span<double>() : std::span(gradients[size_t(i)]));
    });
    return std::accumulate(losses.begin(), losses.end(), 0.0);
  }

  Sizes sizes_;
  ParameterLayout layout_;
  GradientBuckets buckets_;
  std::optional<SaneSettings> sane_;
  PassSettings settings_;
};

class Trainable : public TrainableModel {
 public:
  Trainable(const Sizes& sizes, Parameters parameters)
      : TrainableModel(std::move(parameters)), sizes_(sizes) {}

  TrainableDescription description() const override {
    return {"Toy", int64_t(sizes_.layers.size()), sizes_.channels, sizes_.vocabulary, 0};
  }
  bool same_model(const TrainableModel& other) const override {
    const auto* const same = dynamic_cast<const Trainable*>(&other);
    return same && same->layout() == layout() && same->sane() == sane();
  }
  std::unique_ptr<TrainableModel> clone() const override {
    return std::make_unique<Trainable>(sizes_, parameters().clone());
  }
  std::unique_ptr<GradientPass> gradient_pass(const PassSettings& settings) const override {
    if (settings.precision != Precision::fp32)
      fail(Fault::usage, "precision: expected fp32 for this architecture, found bf16");
    return std::make_unique<ToyGradientPass>(sizes_, sane(), settings);
  }
  // The parameters and, while a call lasts, a gradient for each sequence, in double.
  PassMemory cpu_pass_memory(const PassSettings& settings) const override {
    return {0, uint64_t(settings.sequences + 1) * parameters().all().size() * sizeof(double)};
  }
  void save(const fs::path& path) const override {
    write(path, sizes_, parameters(), StoredType::f32, sane_metadata(sane()));
  }
  std::unique_ptr<LanguageModel> open_for_inference() const override {
    TensorFile file("safetensors", "the model in training");
    for (const ParameterSlot& slot : layout().slots()) {
      StoredTensor tensor;
      tensor.name = slot.name, tensor.shape = slot.shape;
      tensor.stride = contiguous_strides(slot.shape);
      tensor.bytes = std::as_bytes(parameters().of(slot.name));
      file.add(std::move(tensor));
    }
    file.metadata() = sane_metadata(sane());
    return std::make_unique<Toy>(std::make_unique<Checkpoint>(std::move(file)), OpenOptions{});
  }

 private:
  Sizes sizes_;
};

using Model = TrainableFactory::Model;

// Layers of three kinds in turn: a memory behind a convolution, a cache, two memories.
Sizes sizes_for(const ModelSizes& asked, bool sane) {
  expect_no_beta_scale(asked);
  if (!asked.kind.empty())
    fail(Fault::usage, "kind: expected none for this architecture, found '", asked.kind, "'");
  if (asked.layers < 1 || asked.channels < 1 || asked.head_size < 1)
    fail(Fault::usage, "model: expected layers, channels and a head size, found ", asked.layers,
         ", ", asked.channels, " and ", asked.head_size);
  const int64_t wide = asked.head_size, narrow = wide / 2 + 1;
  const LayerSizes kinds[] = {{.taps = 3, .memories = {{2, wide, narrow}}},
                              {.cache = wide},
                              {.memories = {{1, narrow, wide}, {3, narrow, narrow}}}};
  Sizes sizes{asked.vocabulary, asked.channels, {}, sane};
  for (int64_t n = 0; n < asked.layers; ++n) sizes.layers.push_back(kinds[n % 3]);
  return sizes;
}

Model initialise(const ModelSizes& asked, const std::optional<SaneSettings>& sane,
                 const Initialisation& settings, const kernel::Cpu&) {
  const Sizes sizes = sizes_for(asked, sane.has_value());
  Parameters parameters(parameter_layout(sizes), sane);
  uint64_t stream = 0;
  for (const ParameterSlot& slot : parameters.layout().slots()) {
    const std::span<float> values = parameters.of(slot.name);
    const Tensor<float> drawn = random_tensor(slot.shape, settings.seed, stream++);
    if (slot.role == ParameterRole::decay_bias)
      std::ranges::fill(values, 0.98f);
    else if (slot.role != ParameterRole::sane)
      std::ranges::copy(drawn.span(), values.begin());
  }
  return std::make_unique<Trainable>(sizes, std::move(parameters));
}

Model open(const fs::path& path, const std::optional<SaneSettings>& sane) {
  const Checkpoint checkpoint(open_tensor_file(path));
  Sizes sizes = checkpoint.sizes();
  const bool graft = wants_graft(checkpoint.sane(), sane, path.string());
  sizes.sane = sizes.sane || graft;
  Parameters parameters(parameter_layout(sizes), graft ? sane : checkpoint.sane());
  parameters.take(checkpoint);
  return std::make_unique<Trainable>(sizes, std::move(parameters));
}

Model restore(const fs::path& path) { return open(path, std::nullopt); }

Model released(std::string_view size, BenchWeights, bool, const kernel::Cpu&) {
  fail(Fault::usage, "size: expected an architecture with released models, found ", size,
       " of toy");
}

GraftReport graft(const GraftRequest& request) {
  const Checkpoint checkpoint(open_tensor_file(request.from));
  if (checkpoint.sane())
    fail(Fault::argument, request.from, ": expected a model without SANE, found one with it");
  const Model model = open(request.from, request.sane);
  Sizes sizes = checkpoint.sizes();
  sizes.sane = true;
  const StoredType type = request.type.value_or(checkpoint.matrix_type());
  write(request.to, sizes, model->parameters(), type, sane_metadata(request.sane));
  return {type, model->layout().parameters() - parameter_layout(checkpoint.sizes()).parameters()};
}

}  // namespace

ParameterLayout parameter_layout(const Sizes& sizes) {
  return ParameterLayout([&](auto&& visit) {
    const auto layers = int64_t(sizes.layers.size());
    each_tensor(sizes, [&](const std::string& name, const Shape& shape) {
      int64_t bucket = name == "head.weight" ? layers : 0;
      for (int64_t n = 0; n < layers; ++n)
        if (name.starts_with(layer_tensor(n, ""))) bucket = n;
      visit(name, shape, role_of(name), bucket);
    });
  });
}

const TrainableFactory trainable{
    "toy",
    initialise,
    open,
    restore,
    released,
    graft,
    [](const ModelSizes& sizes, const std::optional<SaneSettings>& sane) {
      return parameter_layout(sizes_for(sizes, sane.has_value())).parameters();
    }};

}  // namespace deltasane::toy
