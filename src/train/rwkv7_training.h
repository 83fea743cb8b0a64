// The loss and gradient of RWKV-7 on the CPU, with the kernels, in float.
//
// gradient_reference.h is the definition. Activations of every layer are kept for the way back, or
// only each layer's input (Activations::recompute), at the price of a second forward pass; the
// results are the same bit for bit, and do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernel/cpu_device.h"
#include "train/batch.h"
#include "train/gradient_stretches.h"
#include "train/parameters.h"
#include "train/rounding.h"

namespace deltasane::train {

enum class Activations { keep, recompute };

class Rwkv7Training {
 public:
  // Buffers for batches of this size; they are used again by every call.
  Rwkv7Training(const ParameterLayout& layout, const std::optional<SaneSettings>& sane,
                int64_t sequences, int64_t time, Activations activations,
                Precision precision = Precision::fp32);
  ~Rwkv7Training();
  Rwkv7Training(Rwkv7Training&&) noexcept;

  // The loss; its gradient is added to `gradient` (in the layout). Ids must be in the vocabulary.
  double gradient(std::span<const float> parameters, const Batch& batch,
                  const LossSettings& settings, std::span<float> gradient, const kernel::Cpu& cpu,
                  const FinishedStretch& finished = {});
  // The loss alone.
  double loss(std::span<const float> parameters, const Batch& batch, const LossSettings& settings,
              const kernel::Cpu& cpu);
  // Of the last call, the processors' time for what SANE has a part in: recurrence and thresholds.
  double recurrence_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deltasane::train
