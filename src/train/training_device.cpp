#include "train/training_device.h"

#include "model/device.h"
#include "tensor/cuda/gpu.h"
#include "train/gpu/gpu_training_device.h"

namespace deltasane::train {

std::unique_ptr<TrainingDevice> open_training_device(const std::string& name, TrainingJob job,
                                                     const kernel::Cpu& cpu,
                                                     std::shared_ptr<comm::Group> group) {
  const std::optional<int> gpu = device_named(name).gpu;
  if (!gpu) return cpu_training_device(std::move(job), cpu, std::move(group));
  if constexpr (built_with_cuda)
    return gpu_training_device(std::move(job), *gpu, std::move(group));
  else
    fail(Fault::device, "a build without CUDA names no GPU");
}

}  // namespace deltasane::train
