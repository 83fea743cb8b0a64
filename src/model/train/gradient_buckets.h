// Which parts of a gradient are complete together during a backward pass, so that they can be
// added up over processes while the pass continues.
//
// Bucket i is complete with block i, and bucket 0 with the embedding too; the last one, as many as
// there are blocks, with the head. The backward pass completes the last one first.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/train/parameters.h"

namespace deltasane {

// Called with each part of the gradient as soon as the pass adds nothing more to it. Every element
// is in one of them. On a GPU the numbers lie there, and are complete when all work is done that
// was enqueued so far.
using GradientReady = std::function<void(std::span<float>)>;

class GradientBuckets {
 public:
  explicit GradientBuckets(const ParameterLayout& layout);

  void report(int64_t bucket, float* gradient, const GradientReady& ready) const;

 private:
  struct Range {
    int64_t begin, end;
  };
  std::vector<std::vector<Range>> buckets_;
};

}  // namespace deltasane
