#include "train/gpu/gpu_training_device.h"

#include "comm/local_rank.h"
#include "train/gpu/gpu_device.h"

namespace deltasane::train {
namespace {

int own_gpu(comm::Group& group, bool share) {
  const comm::LocalRank here = comm::local_rank(group);
  const int gpus = Gpu::count();
  if (here.size > 1 && here.size > gpus && !(share && gpus > 0))
    fail(Fault::device, "device cuda: expected a GPU for each of the ", here.size,
         " processes on this machine, found ", gpus,
         "; start fewer, or let them share with run.share_gpu = true");
  return gpus > 0 ? here.rank % gpus : 0;
}

}  // namespace

std::unique_ptr<TrainingDevice> gpu_training_device(TrainingJob job, std::optional<int> gpu_index,
                                                    std::shared_ptr<comm::Group> group) {
  job.model->expect_gpu_support();
  const int index = gpu_index ? *gpu_index : own_gpu(*group, job.sums.share_gpu);
  if (job.pass.precision == Precision::bf16)
    return std::make_unique<gpu::GpuTrainingDevice<bf16>>(std::move(job), index, std::move(group));
  return std::make_unique<gpu::GpuTrainingDevice<float>>(std::move(job), index, std::move(group));
}

}  // namespace deltasane::train
