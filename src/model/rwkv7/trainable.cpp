#include "model/rwkv7/trainable.h"

#include "format/open.h"
#include "model/rwkv7/checkpoint/checkpoint.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "model/rwkv7/train/gpu/gradient_pass.h"
#include "model/rwkv7/train/gpu/unsupported.h"
#include "model/rwkv7/train/gradient_pass.h"
#include "model/rwkv7/train/initialise.h"
#include "model/rwkv7/train/layout.h"

namespace deltasane::rwkv7 {
namespace {

class Trainable : public TrainableModel {
 public:
  Trainable(const Rwkv7Shape& shape, Parameters parameters)
      : TrainableModel(std::move(parameters)), shape_(shape) {}

  TrainableDescription description() const override {
    constexpr double per_entry = 28;  // of the state, forward and backward
    return {"RWKV-7", shape_.layers, shape_.channels, shape_.vocabulary,
            per_entry * double(shape_.layers * shape_.channels * shape_.head_size)};
  }
  bool same_model(const TrainableModel& other) const override {
    const auto* const same = dynamic_cast<const Trainable*>(&other);
    return same && same->shape_ == shape_ && same->sane() == sane();
  }
  std::unique_ptr<TrainableModel> clone() const override {
    return std::make_unique<Trainable>(shape_, parameters().clone());
  }

  std::unique_ptr<GradientPass> gradient_pass(const PassSettings& settings) const override {
    return make_gradient_pass(shape_, sane(), settings);
  }
  PassMemory cpu_pass_memory(const PassSettings& settings) const override {
    return gradient_pass_memory(shape_, sane(), settings);
  }
  PassMemory gpu_pass_memory(const PassSettings& settings) const override {
    return with_cuda([&] { return gpu_gradient_pass_memory(shape_, sane(), settings); });
  }
  void expect_gpu_support() const override { gpu::expect_trainable(shape_, sane()); }
  std::unique_ptr<GpuGradientPass<float>> gpu_gradient_pass_f32(const PassSettings& settings,
                                                                const Gpu& gpu) const override {
    return with_cuda([&] { return make_gpu_gradient_pass<float>(shape_, sane(), settings, gpu); });
  }
  std::unique_ptr<GpuGradientPass<bf16>> gpu_gradient_pass_bf16(const PassSettings& settings,
                                                                const Gpu& gpu) const override {
    return with_cuda([&] { return make_gpu_gradient_pass<bf16>(shape_, sane(), settings, gpu); });
  }

  void save(const fs::path& path) const override {
    write_rwkv7_safetensors(path, parameters(), StoredType::f32, metadata_of(shape_.norms, sane()));
  }
  std::unique_ptr<LanguageModel> open_for_inference() const override {
    return std::make_unique<Rwkv7>(as_checkpoint(parameters(), shape_.norms), OpenOptions{});
  }

 private:
  Rwkv7Shape shape_;
};

using Model = TrainableFactory::Model;

Model initialise(const ModelSizes& sizes, const std::optional<SaneSettings>& sane,
                 const Initialisation& settings, const kernel::Cpu& cpu) {
  Rwkv7Shape shape = shape_for(sizes);
  shape.sane = sane.has_value();
  return std::make_unique<Trainable>(shape, initialised(shape, sane, settings, cpu));
}

Model with_own_sane(const Rwkv7Checkpoint& checkpoint) {
  const Rwkv7Shape shape = checkpoint.validate();
  return std::make_unique<Trainable>(shape, parameters_of(checkpoint, shape, checkpoint.sane()));
}

Model open(const fs::path& path, const std::optional<SaneSettings>& sane) {
  const Rwkv7Checkpoint checkpoint(path);
  Rwkv7Shape shape = checkpoint.validate();
  if (!wants_graft(checkpoint.sane(), sane, path.string())) return with_own_sane(checkpoint);
  Parameters parameters = grafted(checkpoint, shape, *sane);
  return std::make_unique<Trainable>(shape, std::move(parameters));
}

Model restore(const fs::path& path) { return with_own_sane(Rwkv7Checkpoint(path)); }

Model released(std::string_view size, BenchWeights weights, bool sane, const kernel::Cpu& cpu) {
  Rwkv7Shape shape = released_shape(size);
  shape.sane = sane;
  const auto settings = sane ? std::optional(SaneSettings{3, 16}) : std::nullopt;
  return std::make_unique<Trainable>(
      shape, weights == BenchWeights::initial
                 ? initialised(shape, settings, {.matrices = InitialMatrices::normal}, cpu)
                 : parameters_of(RandomRwkv7(shape, 1), shape, settings));
}

GraftReport graft(const GraftRequest& request) {
  const Rwkv7Checkpoint checkpoint(open_tensor_file(request.from, request.non_finite));
  Rwkv7Shape shape = checkpoint.validate();
  const Parameters model = grafted(checkpoint, shape, request.sane);
  StoredType type = checkpoint.type("head.weight");
  if (request.type)
    type = *request.type;
  else if (type != StoredType::f32 && type != StoredType::bf16)
    type = StoredType::f16;
  Metadata metadata = checkpoint.metadata();
  for (const auto& [key, value] : metadata_of(shape.norms, request.sane)) metadata[key] = value;
  write_rwkv7_safetensors(request.to, model, type, metadata);
  return {type, shape.layers * shape.channels * (shape.heads + 1)};
}

int64_t parameters(const ModelSizes& sizes, const std::optional<SaneSettings>& sane) {
  Rwkv7Shape shape = shape_for(sizes);
  shape.sane = sane.has_value();
  return parameter_layout(shape).parameters();
}

}  // namespace

const TrainableFactory trainable{"rwkv7",  initialise, open,      restore,
                                 released, graft,      parameters};

}  // namespace deltasane::rwkv7
