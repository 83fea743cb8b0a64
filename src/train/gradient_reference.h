// The definition of a training step's loss and gradient, in float or double: plain loops over
// whole sequences, every activation kept. It is never made faster.
#pragma once

#include <optional>
#include <span>

#include "train/batch.h"
#include "train/parameters.h"
#include "train/rounding.h"

namespace deltasane::train::reference {

template <class Real>
struct TrainingLoss {
  Real cross_entropy = 0;
  Real wrap = 0;  // the loss whose gradient L2-wrap is
  Real total() const { return cross_entropy + wrap; }
};

// parameters and gradient are in `layout`. The gradient is added to; an empty one is not wanted.
template <class Real>
TrainingLoss<Real> training_loss(const ParameterLayout& layout,
                                 const std::optional<SaneSettings>& sane,
                                 std::span<const Real> parameters, const Batch& batch,
                                 const LossSettings& settings, std::span<Real> gradient,
                                 Precision precision = Precision::fp32);

}  // namespace deltasane::train::reference
