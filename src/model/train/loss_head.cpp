#include "model/train/loss_head.h"

#include <algorithm>

#include "kernel/cross_entropy/cross_entropy.h"

namespace deltasane {
namespace {

constexpr int64_t logit_rows = 512;  // whose logits are held at a time

}  // namespace

LossHead::LossHead(int64_t rows, int64_t vocabulary)
    : logits_({std::min(rows, logit_rows), vocabulary}),
      losses_(size_t(rows)),
      weights_(size_t(rows)) {}

int64_t LossHead::logits(int64_t rows, int64_t vocabulary) {
  return std::min(rows, logit_rows) * vocabulary;
}

uint64_t LossHead::bytes(int64_t rows, int64_t vocabulary) {
  return uint64_t(logits(rows, vocabulary) + rows) * sizeof(float) +
         uint64_t(rows) * sizeof(double);
}

double LossHead::run(const TrainingPass& c, Slot w, Tensor<float>& last,
                     const TrainingBatch& batch, const LossSettings& settings,
                     Tensor<float>& dlast) {
  for (size_t i = 0; i < weights_.size(); ++i)
    weights_[i] = float(batch.weights[i] / settings.weight_total);
  for (int64_t from = 0; from < c.rows(); from += logit_rows) {
    const int64_t some = std::min(logit_rows, c.rows() - from);
    const View<float> here = logits_.view().slice(0, 0, some);
    const View<float> input = last.view().slice(0, from, some);
    linear(c, w, input, here);
    const auto part = [&](auto& all) { return std::span(all).subspan(size_t(from), size_t(some)); };
    kernel::cross_entropy(
        {here, part(batch.targets), part(weights_), float(settings.wrap), part(losses_)}, c.cpu);
    if (!c.gradient.empty())
      linear_backward(c, w, input, here, dlast.view().slice(0, from, some));
  }
  double sum = 0;
  for (const double loss : losses_) sum += loss;
  return sum;
}

}  // namespace deltasane
