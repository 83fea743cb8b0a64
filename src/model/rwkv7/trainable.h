// RWKV-7 as a model that can be trained.
#pragma once

#include "model/train/trainable_model.h"

namespace deltasane::rwkv7 {

extern const TrainableFactory trainable;

}  // namespace deltasane::rwkv7
