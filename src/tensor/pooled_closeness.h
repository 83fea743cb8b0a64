// Several cases, compared together: the plain reference's error, from which the bound is made, may
// be accidentally small in a single case.
//
// Whole models amplify errors by a factor that differs from case to case, so one bound for all
// would be that of the worst case. mean_ratio gives each case its own bound:
//
//     mean_ratio = (mean over cases of sqrt(error / allowed))^2        close: at most 1
//
// The square roots keep one case with an accidentally small bound from dominating the mean.
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
    const Closeness one = closeness(found, plain, truth, Criterion::max_error);
    roots_ += std::sqrt(ratio_of(one));
    ++cases_;
  }
  Closeness result(Criterion criterion = Criterion::max_error) const {
    return closeness(found_, plain_, truth_, criterion);
  }
  double mean_ratio() const { return roots_ * roots_ / (cases_ * cases_); }

 private:
  static double ratio_of(const Closeness& one) {
    if (!std::isfinite(one.allowed)) return std::numeric_limits<double>::infinity();
    return one.error == 0 ? 0 : one.error / one.allowed;
  }

  std::vector<float> found_, plain_;
  std::vector<double> truth_;
  double roots_ = 0, cases_ = 0;
};

}  // namespace deltasane
