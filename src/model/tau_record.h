// The thresholds that SANE used while a model read, by head of the state's layout: their sum, range
// and last value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/state/state_layout.h"

namespace deltasane {

class TauRecord {
 public:
  struct Head {
    double sum = 0;
    float low = 0, high = 0, last = 0;
    int64_t count = 0;  // chunks
  };

  explicit TauRecord(const StateLayout& layout) : heads_(layout.heads().size()) {
    for (int64_t layer = 0; layer < layout.layers(); ++layer)
      layers_.push_back(layout.heads_of(layer));
  }

  const Head& operator[](size_t head) const { return heads_[head]; }

  // tau: (chunk, head), of one layer.
  void add(int64_t layer, std::span<const float> tau) {
    const StateLayout::HeadRange range = layers_[size_t(layer)];
    for (size_t i = 0; i < tau.size(); ++i) {
      Head& head = heads_[size_t(range.first) + i % size_t(range.count)];
      head.low = head.count ? std::min(head.low, tau[i]) : tau[i];
      head.high = head.count ? std::max(head.high, tau[i]) : tau[i];
      head.sum += double(tau[i]);
      head.last = tau[i];
      ++head.count;
    }
  }

  void clear() { heads_.assign(heads_.size(), {}); }

 private:
  std::vector<StateLayout::HeadRange> layers_;
  std::vector<Head> heads_;
};

}  // namespace deltasane
