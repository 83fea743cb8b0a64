// The loss and gradient of a model of the delta-rule family on a GPU: what train/gradient_pass.h
// computes, in float for tests or with bf16 products and activations for speed. The residual stream,
// decays, beta, tau and state are float in both.
#pragma once

#include <memory>
#include <optional>

#include "model/gated_delta/config.h"
#include "model/train/trainable_model.h"

namespace deltasane::gated_delta {

// Buffers for batches of one size; they are used again by every call. Real: float or bf16.
template <class Real>
std::unique_ptr<GpuGradientPass<Real>> make_gpu_gradient_pass(
    const Config& config, const std::optional<SaneSettings>& sane, const PassSettings& settings,
    const Gpu& gpu);

// What such a pass will allocate; needs no GPU. settings.precision: Real.
PassMemory gpu_gradient_pass_memory(const Config& config, const std::optional<SaneSettings>& sane,
                                    const PassSettings& settings);

}  // namespace deltasane::gated_delta
