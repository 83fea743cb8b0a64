// The thresholds SANE used while a model read, per layer and head: their sum, range and last value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace deltasane {

class TauRecord {
 public:
  struct Head {
    double sum = 0;
    float low = 0, high = 0, last = 0;
    int64_t count = 0;  // chunks
  };

  TauRecord(int64_t layers, int64_t heads) : heads_(heads), all_(size_t(layers * heads)) {}

  const Head& at(int64_t layer, int64_t head) const { return all_[size_t(layer * heads_ + head)]; }

  // tau: (chunk, head), of one layer.
  void add(int64_t layer, std::span<const float> tau) {
    for (size_t i = 0; i < tau.size(); ++i) {
      Head& head = all_[size_t(layer * heads_) + i % size_t(heads_)];
      head.low = head.count ? std::min(head.low, tau[i]) : tau[i];
      head.high = head.count ? std::max(head.high, tau[i]) : tau[i];
      head.sum += double(tau[i]);
      head.last = tau[i];
      ++head.count;
    }
  }

  void clear() { all_.assign(all_.size(), {}); }

 private:
  int64_t heads_;
  std::vector<Head> all_;
};

}  // namespace deltasane
