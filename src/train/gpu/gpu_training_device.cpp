#include "train/gpu/gpu_training_device.h"

#include "train/gpu/gpu_device.h"

namespace deltasane::train {
std::unique_ptr<TrainingDevice> gpu_training_device(TrainingJob job, int gpu_index,
                                                    std::shared_ptr<comm::Group> group) {
  job.model->expect_gpu_support();
  if (job.pass.precision == Precision::bf16)
    return std::make_unique<gpu::GpuTrainingDevice<bf16>>(std::move(job), gpu_index, std::move(group));
  return std::make_unique<gpu::GpuTrainingDevice<float>>(std::move(job), gpu_index, std::move(group));
}

}  // namespace deltasane::train
