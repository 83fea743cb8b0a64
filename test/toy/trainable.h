// The toy as a model that can be trained, on the CPU in fp32.
#pragma once

#include "model/train/trainable_model.h"
#include "toy/toy.h"

namespace deltasane::toy {

extern const TrainableFactory trainable;

// Every parameter, in the order of a file, with its role.
ParameterLayout parameter_layout(const Sizes& sizes);

}  // namespace deltasane::toy
