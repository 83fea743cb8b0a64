#include "train/training_device.h"

namespace deltasane::train {
namespace {

class CpuTrainingDevice : public TrainingDevice {
 public:
  CpuTrainingDevice(TrainingJob job, const kernel::Cpu& cpu, std::shared_ptr<comm::Group> group)
      : cpu_(cpu),
        group_(std::move(group)),
        parameters_(std::move(job.parameters)),
        optimizer_(parameters_.layout(), job.optimizer),
        training_(parameters_.layout(), parameters_.sane(), job.sequences, job.time,
                  job.activations, job.precision),
        gradient_({parameters_.layout().elements()}),
        clip_(job.clip) {}

  double gradient(std::span<const Batch> batches, const LossSettings& settings,
                  const std::function<void()>&) override {
    gradient_.fill(0);
    double loss = 0;
    const FinishedStretch add_up = [&](std::span<float> stretch) { group_->begin_sum(stretch); };
    for (const Batch& batch : batches)
      loss += training_.gradient(parameters_.all(), batch, settings, gradient_.span(), cpu_,
                                 &batch == &batches.back() ? add_up : FinishedStretch{});
    loss = group_->sum(loss);
    group_->finish_sums();
    return loss;
  }
  double clip(const std::string& where) override {
    return clip_gradient(parameters_.layout(), gradient_.span(), clip_, cpu_, where);
  }
  void update(double rate) override {
    optimizer_.step(parameters_.all(), gradient_.span(), rate, cpu_);
  }
  double loss(const Batch& batch, const LossSettings& settings) override {
    return training_.loss(parameters_.all(), batch, settings, cpu_);
  }

  const Parameters& parameters() override { return parameters_; }
  const Optimizer& optimizer() override { return optimizer_; }
  void restore(Parameters parameters, Tensor<float> first, Tensor<float> second,
               int64_t steps) override {
    parameters_ = std::move(parameters);
    optimizer_.first = std::move(first), optimizer_.second = std::move(second);
    optimizer_.steps = steps;
  }

 private:
  kernel::Cpu cpu_;
  std::shared_ptr<comm::Group> group_;
  Parameters parameters_;
  Optimizer optimizer_;
  Rwkv7Training training_;
  Tensor<float> gradient_;
  double clip_;
};

}  // namespace

std::unique_ptr<TrainingDevice> cpu_training_device(TrainingJob job, const kernel::Cpu& cpu,
                                                    std::shared_ptr<comm::Group> group) {
  return std::make_unique<CpuTrainingDevice>(std::move(job), cpu, std::move(group));
}

}  // namespace deltasane::train
