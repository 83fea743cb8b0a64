// A model to train from scratch: RWKV-7's official initialisation, drawn from a seed.
#pragma once

#include <cstdint>
#include <optional>

#include "kernel/cpu_device.h"
#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/train/trainable_model.h"

namespace deltasane::rwkv7 {

Parameters initialised(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                       const Initialisation& settings, const kernel::Cpu& cpu);

// The shape with the official ranks for this many channels (those of the training code today).
Rwkv7Shape shape_for(const ModelSizes& sizes);

}  // namespace deltasane::rwkv7
