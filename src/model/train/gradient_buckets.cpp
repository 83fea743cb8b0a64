#include "model/train/gradient_buckets.h"

#include <algorithm>

namespace deltasane {

GradientBuckets::GradientBuckets(const ParameterLayout& layout) {
  const std::vector<ParameterSlot>& slots = layout.slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto bucket = size_t(slots[i].bucket);
    buckets_.resize(std::max(buckets_.size(), bucket + 1));
    const int64_t end = i + 1 < slots.size() ? slots[i + 1].offset : layout.elements();
    std::vector<Range>& ranges = buckets_[bucket];
    if (!ranges.empty() && ranges.back().end == slots[i].offset)
      ranges.back().end = end;
    else
      ranges.push_back({slots[i].offset, end});
  }
}

void GradientBuckets::report(int64_t bucket, float* gradient, const GradientReady& ready) const {
  if (!ready) return;
  for (const Range& range : buckets_[size_t(bucket)])
    ready({gradient + range.begin, size_t(range.end - range.begin)});
}

}  // namespace deltasane
