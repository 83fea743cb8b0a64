// A run's numbers on one GPU: parameters, gradient and optimiser in one flat row each, float32, and
// with Precision::bf16 a copy of the parameters in 16 bits for matrix products.
//
// A step stops the host once, for loss and length of the gradient; the update runs while the host
// goes on. Equal runs give equal bits.
#pragma once

#include <memory>

#include "train/training_device.h"

namespace deltasane::train {

// Heads of 64 and chunks of 16 tokens; anything else fails, as does a GPU that is not there.
std::unique_ptr<TrainingDevice> gpu_training_device(TrainingJob job, int gpu_index);

}  // namespace deltasane::train
