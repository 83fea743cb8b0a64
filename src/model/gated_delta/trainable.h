// Training of the delta-rule family, for its line in the registry.
#pragma once

#include "model/train/trainable_model.h"

namespace deltasane::gated_delta {

extern const TrainableFactory trainable;

}  // namespace deltasane::gated_delta
