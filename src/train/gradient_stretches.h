// Which parts of a gradient are finished together on the way back through a model.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "train/parameters.h"

namespace deltasane::train {

// Told of each stretch of the gradient as soon as this call adds nothing more to it, while the way
// back goes on: the head's first, then layer by layer. Every element is in one stretch. On a GPU
// the numbers lie there, and are finished when all is done that was asked of it so far.
using FinishedStretch = std::function<void(std::span<float>)>;

class GradientStretches {
 public:
  explicit GradientStretches(const ParameterLayout& layout);

  // Stage i ends with layer i, and the first with the embedding too; the last, as many as there are
  // layers, with the head.
  void tell(int64_t stage, float* gradient, const FinishedStretch& finished) const;

 private:
  struct Stretch {
    int64_t begin, end;
  };
  std::vector<std::vector<Stretch>> stages_;
};

}  // namespace deltasane::train
