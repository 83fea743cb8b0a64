// The definition of RWKV-7 with SANE, in float or double: plain loops over whole sequences, every
// activation kept; the logits, and the loss with its gradient. It is never made faster, and knows
// nothing of block.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/train/rounding.h"
#include "model/rwkv7/checkpoint/source.h"
#include "model/sane.h"
#include "model/train/training_batch.h"

namespace deltasane::reference {

// SANE as the model applies it; alpha 0: none. Without the source's own x_tau and w_tau, w_tau = 0.
struct SaneStrength {
  double alpha = 0;
  int64_t chunk = 16;
};

template <class Real>
struct Rwkv7Result {
  std::vector<Real> logits;  // (tokens, vocabulary)
  std::vector<Real> memory;  // (layer, head, value, key) after the last token
};

// From the beginning of a stream.
template <class Real>
Rwkv7Result<Real> rwkv7(const TensorSource& source, const Rwkv7Shape& shape,
                        const SaneStrength& sane, std::span<const int32_t> tokens);

template <class Real>
struct TrainingLoss {
  Real cross_entropy = 0;
  Real wrap = 0;  // the loss whose gradient L2-wrap is
  Real total() const { return cross_entropy + wrap; }
};

// parameters and gradient are in the layout of the shape (train/layout.h). The gradient is added
// to; an empty one is not wanted.
template <class Real>
TrainingLoss<Real> training_loss(const Rwkv7Shape& shape, const std::optional<SaneSettings>& sane,
                                 std::span<const Real> parameters, const TrainingBatch& batch,
                                 const LossSettings& settings, std::span<Real> gradient,
                                 Precision precision = Precision::fp32);

}  // namespace deltasane::reference
