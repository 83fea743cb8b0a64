// Several cases of a kind, judged together: the yardstick is the worst error of plain arithmetic,
// and over a single case that may be lucky.
#pragma once

#include <vector>

#include "tensor/closeness.h"

namespace deltasane {

class PooledCloseness {
 public:
  void add(std::span<const float> found, std::span<const float> plain,
           std::span<const double> truth) {
    found_.insert(found_.end(), found.begin(), found.end());
    plain_.insert(plain_.end(), plain.begin(), plain.end());
    truth_.insert(truth_.end(), truth.begin(), truth.end());
  }
  Closeness judged(Judged as = Judged::as_operator) const {
    return closeness(found_, plain_, truth_, as);
  }

 private:
  std::vector<float> found_, plain_;
  std::vector<double> truth_;
};

}  // namespace deltasane
