#include "train/gpu/gpu_training_device.h"

#include "train/gpu/gpu_device.h"
#include "train/gpu/gpu_refusals.h"

namespace deltasane::train {

std::unique_ptr<TrainingDevice> gpu_training_device(TrainingJob job, int gpu_index) {
  gpu::expect_trainable(job.parameters.layout().shape(), job.parameters.sane());
  if (job.precision == Precision::bf16)
    return std::make_unique<gpu::GpuTrainingDevice<bf16>>(std::move(job), gpu_index);
  return std::make_unique<gpu::GpuTrainingDevice<float>>(std::move(job), gpu_index);
}

}  // namespace deltasane::train
