// The loss and gradient of RWKV-7 on a GPU: what train/gradient_pass.h computes, in float for tests
// or with bf16 products and activations for speed. The residual stream, decay, tau and state are
// float in both.
#pragma once

#include <memory>
#include <optional>

#include "model/rwkv7/checkpoint/tensor_table.h"
#include "model/train/trainable_model.h"

namespace deltasane::rwkv7 {

// Buffers for batches of one size; they are used again by every call. Real: float or bf16.
template <class Real>
std::unique_ptr<GpuGradientPass<Real>> make_gpu_gradient_pass(
    const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane, const PassSettings& settings,
    const Gpu& gpu);

// What such a pass will allocate; needs no GPU. settings.precision: Real.
PassMemory gpu_gradient_pass_memory(const Rwkv7Shape& shape,
                                    const std::optional<SaneSettings>& sane,
                                    const PassSettings& settings);

}  // namespace deltasane::rwkv7
