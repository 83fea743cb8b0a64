// The definition of the choice of experts for one row, in float or double.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "kernel/activation/reference.h"
#include "kernel/experts/experts.h"

namespace deltasane::kernel::reference {

template <class Real>
void route(const Router& router, std::span<const Real> logits, std::span<Choice> chosen) {
  std::vector<Real> score(logits.size()), order(logits.size());
  const Real largest = *std::ranges::max_element(logits);
  Real sum = 0;
  for (const Real logit : logits) sum += std::exp(logit - largest);
  for (size_t e = 0; e < logits.size(); ++e) {
    score[e] = router.score == RouterScore::softmax ? std::exp(logits[e] - largest) / sum
                                                    : sigmoid(logits[e]);
    order[e] = score[e] + (router.bias ? Real(router.bias[e]) : 0);
  }
  std::vector<int32_t> best(logits.size());
  std::iota(best.begin(), best.end(), 0);
  std::partial_sort(best.begin(), best.begin() + int64_t(chosen.size()), best.end(),
                    [&](int32_t a, int32_t b) {
                      const Real of_a = order[size_t(a)], of_b = order[size_t(b)];
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  Real total = router.renormalize ? Real(1e-20) : Real(1);
  for (size_t i = 0; i < chosen.size() && router.renormalize; ++i) total += score[size_t(best[i])];
  for (size_t i = 0; i < chosen.size(); ++i)
    chosen[i] = {best[i], float(score[size_t(best[i])] / total * Real(router.scale))};
}

}  // namespace deltasane::kernel::reference
