// The last product of a language model and its loss, some rows at a time: logits are larger than
// everything else.
#pragma once

#include <vector>

#include "model/train/training_batch.h"
#include "model/train/training_pass.h"
#include "tensor/tensor.h"

namespace deltasane {

class LossHead {
 public:
  LossHead(int64_t rows, int64_t vocabulary);
  uint64_t bytes() const { return bytes(int64_t(weights_.size()), logits_.shape()[1]); }
  static uint64_t bytes(int64_t rows, int64_t vocabulary);
  // Of the logits that are held at a time.
  static int64_t logits(int64_t rows, int64_t vocabulary);

  // The loss of logits `last` W', W (vocabulary, channels); with a gradient wanted, dlast too.
  double run(const TrainingPass& c, Slot w, Tensor<float>& last, const TrainingBatch& batch,
             const LossSettings& settings, Tensor<float>& dlast);

 private:
  Tensor<float> logits_;
  std::vector<double> losses_;
  std::vector<float> weights_;
};

}  // namespace deltasane
