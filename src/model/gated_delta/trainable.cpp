#include "model/gated_delta/trainable.h"

#include "format/open.h"
#include "model/gated_delta/model.h"
#include "model/gated_delta/random.h"
#include "model/gated_delta/train/gpu/gradient_pass.h"
#include "model/gated_delta/train/gpu/unsupported.h"
#include "model/gated_delta/train/gradient_pass.h"
#include "model/gated_delta/train/initialise.h"
#include "model/gated_delta/train/layout.h"

namespace deltasane::gated_delta {
namespace {

class Trainable : public TrainableModel {
 public:
  Trainable(const Config& config, Parameters parameters)
      : TrainableModel(std::move(parameters)), config_(config), title_(title_of(config)) {}

  TrainableDescription description() const override {
    constexpr double per_entry = 28;  // of the state, forward and backward
    const auto recurrent = double(std::ranges::count(config_.mixers, Mixer::recurrent));
    return {title_, config_.layers(), config_.channels, config_.vocabulary,
            per_entry * recurrent * double(config_.value_channels() * config_.key_size)};
  }
  bool same_model(const TrainableModel& other) const override {
    const auto* const same = dynamic_cast<const Trainable*>(&other);
    return same && same->layout() == layout() && same->sane() == sane() &&
           own_metadata(same->config_, {}) == own_metadata(config_, {});
  }
  std::unique_ptr<TrainableModel> clone() const override {
    return std::make_unique<Trainable>(config_, parameters().clone());
  }

  std::unique_ptr<GradientPass> gradient_pass(const PassSettings& settings) const override {
    return make_gradient_pass(config_, sane(), settings);
  }
  PassMemory cpu_pass_memory(const PassSettings& settings) const override {
    return gradient_pass_memory(config_, sane(), settings);
  }
  PassMemory gpu_pass_memory(const PassSettings& settings) const override {
    return with_cuda([&] { return gpu_gradient_pass_memory(config_, sane(), settings); });
  }
  void expect_gpu_support() const override { gpu::expect_trainable(config_); }
  std::unique_ptr<GpuGradientPass<float>> gpu_gradient_pass_f32(const PassSettings& settings,
                                                                const Gpu& gpu) const override {
    return with_cuda([&] { return make_gpu_gradient_pass<float>(config_, sane(), settings, gpu); });
  }
  std::unique_ptr<GpuGradientPass<bf16>> gpu_gradient_pass_bf16(const PassSettings& settings,
                                                                const Gpu& gpu) const override {
    return with_cuda([&] { return make_gpu_gradient_pass<bf16>(config_, sane(), settings, gpu); });
  }

  void save(const fs::path& path) const override {
    write(path, config_, parameters(), StoredType::f32, sane_metadata(sane()));
  }
  std::unique_ptr<LanguageModel> open_for_inference() const override {
    return std::make_unique<Model>(as_checkpoint(config_, parameters()), OpenOptions{});
  }

 private:
  Config config_;
  std::string title_;
};

using Made = TrainableFactory::Model;

Config with_sane(Config config, bool sane) {
  config.sane = sane;
  return config;
}

Made initialise(const ModelSizes& sizes, const std::optional<SaneSettings>& sane,
                const Initialisation& settings, const kernel::Cpu&) {
  const Config config = with_sane(config_for(sizes), sane.has_value());
  return std::make_unique<Trainable>(config, initialised(config, sane, settings));
}

// SANE's own parameters are 0 where the source has none.
Made made_of(const TensorSource& source, const Config& config,
             const std::optional<SaneSettings>& sane) {
  const Config with = with_sane(config, sane.has_value());
  Parameters parameters(parameter_layout(with), sane);
  parameters.take(source);
  return std::make_unique<Trainable>(with, std::move(parameters));
}

Made open(const fs::path& path, const std::optional<SaneSettings>& sane) {
  const Checkpoint checkpoint(open_tensor_file(path));
  const bool graft = wants_graft(checkpoint.sane(), sane, path.string());
  if (graft && !checkpoint.config().has(Mixer::recurrent))
    fail(Fault::usage, path, ": expected a model with a recurrence for SANE, found none");
  return made_of(checkpoint, checkpoint.config(), graft ? sane : checkpoint.sane());
}

Made restore(const fs::path& path) { return open(path, std::nullopt); }

Made released(std::string_view size, BenchWeights weights, bool sane, const kernel::Cpu&) {
  const Config config = with_sane(released_config(size), sane);
  const auto settings = sane ? std::optional(SaneSettings{3, 16}) : std::nullopt;
  if (weights == BenchWeights::random)
    return made_of(RandomTensors(config, 1), config, settings);
  return std::make_unique<Trainable>(config, initialised(config, settings, {}));
}

GraftReport graft(const GraftRequest& request) {
  const Checkpoint checkpoint(open_tensor_file(request.from, request.non_finite));
  if (checkpoint.sane())
    fail(Fault::argument, request.from,
         ": expected a model without SANE, found one that has w_tau already");
  expect_valid(request.sane);
  const Made model = made_of(checkpoint, checkpoint.config(), request.sane);
  StoredType type = checkpoint.matrix_type();
  if (request.type)
    type = *request.type;
  else if (type != StoredType::f32 && type != StoredType::bf16)
    type = StoredType::f16;
  const Config config = with_sane(checkpoint.config(), true);
  write(request.to, config, model->parameters(), type, sane_metadata(request.sane));
  return {type, parameter_layout(config).parameters() -
                    parameter_layout(checkpoint.config()).parameters()};
}

int64_t parameters(const ModelSizes& sizes, const std::optional<SaneSettings>& sane) {
  return parameter_layout(with_sane(config_for(sizes), sane.has_value())).parameters();
}

}  // namespace

const TrainableFactory trainable{"gated_delta", initialise, open,      restore,
                                 released,      graft,      parameters};

}  // namespace deltasane::gated_delta
