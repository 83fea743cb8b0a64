// The loss and gradient of a model of the delta-rule family on the CPU, with the kernels, in float:
// embedding, layers (block.h, block_backward.h), head. reference.h is the definition.
#pragma once

#include <memory>
#include <optional>

#include "model/gated_delta/config.h"
#include "model/train/trainable_model.h"

namespace deltasane::gated_delta {

// Buffers for batches of one size; they are used again by every call.
std::unique_ptr<GradientPass> make_gradient_pass(const Config& config,
                                                 const std::optional<SaneSettings>& sane,
                                                 const PassSettings& settings);

// What such a pass will have allocated after its first gradient.
PassMemory gradient_pass_memory(const Config& config, const std::optional<SaneSettings>& sane,
                                const PassSettings& settings);

}  // namespace deltasane::gated_delta
