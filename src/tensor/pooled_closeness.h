// Several cases of a kind, judged together: the yardstick is the worst error of plain arithmetic,
// and over a single case that may be lucky.
//
// Where each case magnifies errors by a factor of its own, as whole models do, the largest errors
// of all cases are those of the one that magnifies most, and that one may be lucky again. There
// each case has its own yardstick, and counts with its largest error as a share of what it allows.
// The mean of the shares' roots is taken: a lucky yardstick makes one share large, and the mean of
// the shares themselves would be that one.
#pragma once

#include <cmath>
#include <limits>
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
    const Closeness one = closeness(found, plain, truth, Judged::as_operator);
    roots_ += std::sqrt(share_of(one));
    ++cases_;
  }
  Closeness judged(Judged as = Judged::as_operator) const {
    return closeness(found_, plain_, truth_, as);
  }
  // At most 1 is close.
  double mean_share() const { return roots_ * roots_ / (cases_ * cases_); }

 private:
  static double share_of(const Closeness& one) {
    if (!std::isfinite(one.allowed)) return std::numeric_limits<double>::infinity();
    return one.error == 0 ? 0 : one.error / one.allowed;
  }

  std::vector<float> found_, plain_;
  std::vector<double> truth_;
  double roots_ = 0, cases_ = 0;
};

}  // namespace deltasane
