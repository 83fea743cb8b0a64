// Where the numbers of a run live, parameters, gradient and optimiser, and the work on them.
//
// A step is gradient, clip, update, in this order. Every device keeps the same numbers in the same
// layout, so that a run may be saved on one and continued on another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/device_all_reduce.h"
#include "comm/group.h"
#include "kernel/cpu_device.h"
#include "model/train/trainable_model.h"
#include "train/optimizer/optimizer.h"

namespace deltasane::train {

class TrainingDevice {
 public:
  virtual ~TrainingDevice() = default;

  // The loss of all batches, of all processes; the device keeps its gradient. `meanwhile` is called
  // once while a device works that does not need the host; never where the host does the work.
  virtual double gradient(std::span<const TrainingBatch> batches, const LossSettings& settings,
                          const std::function<void()>& meanwhile) = 0;
  // The gradient's length, which is held to the job's limit; see clip_gradient.
  virtual double clip(const std::string& where) = 0;
  virtual void update(double rate) = 0;

  // Who adds up gradients between devices; nobody where the group does, or where there is but one.
  virtual std::string sums_by() const { return ""; }

  // The loss of this process's rows alone.
  virtual double loss(const TrainingBatch& batch, const LossSettings& settings) = 0;

  // How long loss and gradient of one batch take, by a trial; nothing is changed.
  virtual double trial_seconds() = 0;

  // As they are after the last update, on the host; good until the next.
  virtual const TrainableModel& model() = 0;
  virtual const Optimizer& optimizer() = 0;
  virtual void restore(std::unique_ptr<TrainableModel> model, Tensor<float> first,
                       Tensor<float> second, int64_t steps) = 0;
};

// What a device is given to work on.
struct TrainingJob {
  std::unique_ptr<TrainableModel> model;
  OptimizerSettings optimizer;
  double clip;        // the longest gradient; 0: any
  PassSettings pass;  // of one batch
  comm::DeviceAllReduceSettings sums{};
};

std::unique_ptr<TrainingDevice> cpu_training_device(TrainingJob job, const kernel::Cpu& cpu,
                                                    std::shared_ptr<comm::Group> group);

// name: as in model/device.h; a GPU's has its number.
std::unique_ptr<TrainingDevice> open_training_device(const std::string& name, TrainingJob job,
                                                     const kernel::Cpu& cpu,
                                                     std::shared_ptr<comm::Group> group);

}  // namespace deltasane::train
