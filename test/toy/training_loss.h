// The toy's loss and its exact gradient, in double: every number of a sequence is kept. States are
// not rounded to float here, so that the loss has derivatives.
#pragma once

#include "model/train/parameters.h"
#include "model/train/training_batch.h"
#include "toy/toy.h"

namespace deltasane::toy {

// Where parameters lie in a row, and what they mean.
struct TrainingModel {
  const Sizes& sizes;
  const ParameterLayout& layout;
  std::optional<SaneSettings> sane;
};

// The loss of one sequence of the batch. Its gradient is added to `gradient`; empty: the loss alone.
double training_loss(const TrainingModel& model, std::span<const double> parameters,
                     const TrainingBatch& batch, int64_t sequence, const LossSettings& settings,
                     std::span<double> gradient);

}  // namespace deltasane::toy
