// The device of gpu_training_device.h, with what a benchmark asks of it.
#pragma once

#include <cmath>
#include <type_traits>

#include "base/timing.h"
#include "comm/device_all_reduce.h"
#include "comm/single_group.h"
#include "kernel/rounded/cuda.h"
#include "tensor/cuda/gpu_tensor.h"
#include "train/bench/bench.h"
#include "train/gpu/gpu_optimizer.h"
#include "train/training_device.h"

namespace deltasane::train::gpu {

template <class Real>
class GpuTrainingDevice : public TrainingDevice {
 public:
  // group: who shares the job; absent: nobody.
  GpuTrainingDevice(TrainingJob job, int index, std::shared_ptr<comm::Group> group = nullptr)
      : gpu_(index),
        group_(group ? std::move(group) : std::shared_ptr<comm::Group>(comm::single_group())),
        host_(std::move(job.model)),
        host_optimizer_(host_->layout(), job.optimizer),
        parameters_(gpu_, {elements()}, "parameters"),
        gradient_(gpu_, {elements()}, "the gradient"),
        first_(gpu_, {elements()}, "the optimiser's means"),
        second_(gpu_, {elements()}, "the optimiser's means of squares"),
        optimizer_(host_->layout(), job.optimizer, gpu_),
        settings_(job.pass),
        pass_(gpu_gradient_pass<Real>(*host_, job.pass, gpu_)),
        loss_(gpu_, {1}, "the loss"),
        found_(sizeof(double)),
        clip_(job.clip),
        sums_(comm::device_all_reduce(*group_, gpu_, job.sums)) {
    if constexpr (std::is_same_v<Real, bf16>)
      rounded_ = GpuTensor<bf16>(gpu_, {elements()}, "parameters in 16 bits");
    upload();
  }

  double gradient(std::span<const TrainingBatch> batches, const LossSettings& settings,
                  const std::function<void()>& meanwhile) override {
    clock().begin(Work::update, gpu_);
    gradient_.zero(gpu_);
    loss_.zero(gpu_);
    const GradientReady add_up = [&](std::span<float> bucket) {
      sums_->begin(bucket.data(), int64_t(bucket.size()));
    };
    for (const TrainingBatch& batch : batches)
      pass_->add(on_gpu(), batch, settings, gradient_.data(), loss_.data(),
                 sums_ && &batch == &batches.back() ? add_up : GradientReady{});
    clock().begin(Work::update, gpu_);
    copy_to_host(found_.as<double>(), loss_.data(), sizeof(double), gpu_);
    meanwhile();
    if (sums_) sums_->finish();
    optimizer_.measure(gradient_.data(), clip_);
    if (sums_) sums_->wait();
    length_ = optimizer_.norm();  // the one wait of a step; the loss came before it
    return group_->all_reduce(*found_.as<double>());
  }

  double clip(const std::string& where) override {
    if (!std::isfinite(length_))
      fail_not_finite(host_->layout(), gradient_.on_host(gpu_).span(), where);
    return length_;
  }

  void update(double rate) override {
    parameters_are_here_ = optimizer_is_here_ = false;
    clock().begin(Work::update, gpu_);
    ++host_optimizer_.steps;
    optimizer_.step(
        {parameters_.data(), rounded_.data(), gradient_.data(), first_.data(), second_.data()},
        rate, host_optimizer_.steps);
  }

  double loss(const TrainingBatch& batch, const LossSettings& settings) override {
    loss_.zero(gpu_);
    pass_->add(on_gpu(), batch, settings, nullptr, loss_.data());
    copy_to_host(found_.as<double>(), loss_.data(), sizeof(double), gpu_);
    gpu_.wait();
    return *found_.as<double>();
  }

  // Behind passes in which matrix products find their algorithms.
  double trial_seconds() override {
    const TrainingBatch batch = random_tokens(host_->description().vocabulary,
                                              settings_.sequences, settings_.time);
    double began = 0;
    for (int i = 0; i < 4; ++i) {
      gpu_.wait();
      began = seconds_now();
      pass_->add(on_gpu(), batch, {batch.weight_total(), 0}, gradient_.data(), loss_.data());
    }
    gpu_.wait();
    return seconds_now() - began;
  }

  const TrainableModel& model() override {
    if (!parameters_are_here_) parameters_.download(host_->parameters().all(), gpu_);
    parameters_are_here_ = true;
    return *host_;
  }
  const Optimizer& optimizer() override {
    if (!optimizer_is_here_) {
      first_.download(host_optimizer_.first.span(), gpu_);
      second_.download(host_optimizer_.second.span(), gpu_);
    }
    optimizer_is_here_ = true;
    return host_optimizer_;
  }
  void restore(std::unique_ptr<TrainableModel> model, Tensor<float> first, Tensor<float> second,
               int64_t steps) override {
    host_ = std::move(model);
    host_optimizer_.first = std::move(first), host_optimizer_.second = std::move(second);
    host_optimizer_.steps = steps;
    upload();
  }

  std::string sums_by() const override { return sums_ ? sums_->name() : ""; }

  const Gpu& gpu() const { return gpu_; }
  void neutralize(bool on) { pass_->neutralize(on); }
  WorkClock& clock() { return pass_->clock(); }
  uint64_t activation_bytes() const { return pass_->bytes(); }

 private:
  int64_t elements() const { return host_->layout().elements(); }

  GpuParameters<Real> on_gpu() const {
    if constexpr (std::is_same_v<Real, bf16>)
      return {parameters_.data(), rounded_.data()};
    else
      return {parameters_.data(), parameters_.data()};
  }

  void round_parameters() {
    if constexpr (std::is_same_v<Real, bf16>)
      kernel::cuda::rounded(parameters_.data(), rounded_.data(), elements(), gpu_);
  }

  void upload() {
    parameters_.upload(host_->parameters().all(), gpu_);
    first_.upload(host_optimizer_.first.span(), gpu_);
    second_.upload(host_optimizer_.second.span(), gpu_);
    round_parameters();
    parameters_are_here_ = optimizer_is_here_ = true;
  }

  Gpu gpu_;
  std::shared_ptr<comm::Group> group_;
  std::unique_ptr<TrainableModel> host_;  // these two as they were when the host last asked
  Optimizer host_optimizer_;
  bool parameters_are_here_ = false, optimizer_is_here_ = false;
  GpuTensor<float> parameters_, gradient_, first_, second_;
  GpuTensor<bf16> rounded_;
  GpuOptimizer optimizer_;
  PassSettings settings_;
  std::unique_ptr<GpuGradientPass<Real>> pass_;
  GpuTensor<double> loss_;
  PinnedBuffer found_;  // the loss
  double clip_, length_ = 0;
  // None for one process alone. It goes first: sums that wait for a process that has ended would
  // keep memory from being given back.
  std::unique_ptr<comm::DeviceAllReduce> sums_;
};

}  // namespace deltasane::train::gpu
