// A model to train from scratch, drawn from a seed, as flash-linear-attention and transformers begin
// (docs/training.md).
#pragma once

#include "kernel/cpu_device.h"
#include "model/gated_delta/config.h"
#include "model/train/trainable_model.h"

namespace deltasane::gated_delta {

Parameters initialised(const Config& config, const std::optional<SaneSettings>& sane,
                       const Initialisation& settings);

// A model of one of the kinds for which sizes follow from layers, channels and the size of a head.
Config config_for(const ModelSizes& sizes);

}  // namespace deltasane::gated_delta
