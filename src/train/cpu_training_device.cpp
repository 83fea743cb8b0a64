#include <algorithm>

#include "base/timing.h"
#include "train/bench/bench.h"
#include "train/training_device.h"

namespace deltasane::train {
namespace {

class CpuTrainingDevice : public TrainingDevice {
 public:
  CpuTrainingDevice(TrainingJob job, const kernel::Cpu& cpu, std::shared_ptr<comm::Group> group)
      : cpu_(cpu),
        group_(std::move(group)),
        model_(std::move(job.model)),
        optimizer_(model_->layout(), job.optimizer),
        settings_(job.pass),
        pass_(model_->gradient_pass(job.pass)),
        gradient_({model_->layout().elements()}),
        clip_(job.clip) {}

  double gradient(std::span<const TrainingBatch> batches, const LossSettings& settings,
                  const std::function<void()>&) override {
    gradient_.fill(0);
    double loss = 0;
    const GradientReady add_up = [&](std::span<float> bucket) { group_->begin_all_reduce(bucket); };
    for (const TrainingBatch& batch : batches)
      loss += pass_->gradient(model_->parameters().all(), batch, settings, gradient_.span(), cpu_,
                              &batch == &batches.back() ? add_up : GradientReady{});
    loss = group_->all_reduce(loss);
    group_->finish_all_reduces();
    return loss;
  }
  double clip(const std::string& where) override {
    return clip_gradient(model_->layout(), gradient_.span(), clip_, cpu_, where);
  }
  void update(double rate) override {
    optimizer_.step(model_->parameters().all(), gradient_.span(), rate, cpu_);
  }
  double loss(const TrainingBatch& batch, const LossSettings& settings) override {
    return pass_->loss(model_->parameters().all(), batch, settings, cpu_);
  }

  // Of a few tokens: a whole batch may take minutes.
  double trial_seconds() override {
    constexpr int64_t most_tokens = 64;
    constexpr double brief = 0.2;  // then the first, which touches memory, does not count
    PassSettings few = settings_;
    few.sequences = 1, few.time = std::min(few.time, most_tokens);
    const auto pass = model_->gradient_pass(few);
    const TrainingBatch batch = random_tokens(model_->description().vocabulary, 1, few.time);
    const auto once = [&] {
      const double began = seconds_now();
      pass->gradient(model_->parameters().all(), batch, {batch.weight_total(), 0},
                     gradient_.span(), cpu_);
      return seconds_now() - began;
    };
    double seconds = once();
    if (seconds < brief) seconds = once();
    return seconds * double(settings_.sequences * settings_.time) / double(few.time);
  }

  const TrainableModel& model() override { return *model_; }
  const Optimizer& optimizer() override { return optimizer_; }
  void restore(std::unique_ptr<TrainableModel> model, Tensor<float> first, Tensor<float> second,
               int64_t steps) override {
    model_ = std::move(model);
    optimizer_.first = std::move(first), optimizer_.second = std::move(second);
    optimizer_.steps = steps;
  }

 private:
  kernel::Cpu cpu_;
  std::shared_ptr<comm::Group> group_;
  std::unique_ptr<TrainableModel> model_;
  Optimizer optimizer_;
  PassSettings settings_;
  std::unique_ptr<GradientPass> pass_;
  Tensor<float> gradient_;
  double clip_;
};

}  // namespace

std::unique_ptr<TrainingDevice> cpu_training_device(TrainingJob job, const kernel::Cpu& cpu,
                                                    std::shared_ptr<comm::Group> group) {
  return std::make_unique<CpuTrainingDevice>(std::move(job), cpu, std::move(group));
}

}  // namespace deltasane::train
