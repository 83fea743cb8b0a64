// A run's numbers on one GPU: parameters, gradient and optimiser in one flat row each, float32, and
// with Precision::bf16 a copy of the parameters in 16 bits for matrix products.
//
// A step stops the host once, for loss and length of the gradient; the update runs while the host
// continues. Equal runs give equal bits.
//
// Processes that share a job have a GPU each. A layer's gradient is added up over them
// (comm/device_all_reduce.h) while the layers before it are computed.
#pragma once

#include <memory>

#include "train/training_device.h"

namespace deltasane::train {

// What the model's operators on a GPU do not support fails, as does a GPU that is not there.
std::unique_ptr<TrainingDevice> gpu_training_device(TrainingJob job, int gpu_index,
                                                    std::shared_ptr<comm::Group> group);

}  // namespace deltasane::train
