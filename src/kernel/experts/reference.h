// The definition of the choice of experts for one row and of its gradient, in float or double.
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
std::vector<Real> router_scores(RouterScore kind, std::span<const Real> logits) {
  std::vector<Real> score(logits.size());
  const Real largest = *std::ranges::max_element(logits);
  Real sum = 0;
  for (const Real logit : logits) sum += std::exp(logit - largest);
  for (size_t e = 0; e < logits.size(); ++e)
    score[e] = kind == RouterScore::softmax ? std::exp(logits[e] - largest) / sum
                                            : sigmoid(logits[e]);
  return score;
}

// What the chosen scores are divided by.
template <class Real>
Real router_total(const Router& router, std::span<const Real> score,
                  std::span<const Choice> chosen) {
  if (!router.renormalize) return 1;
  Real total = Real(1e-20);
  for (const Choice& choice : chosen) total += score[size_t(choice.expert)];
  return total;
}

template <class Real>
void route(const Router& router, std::span<const Real> logits, std::span<Choice> chosen) {
  const std::vector<Real> score = router_scores(router.score, logits);
  std::vector<Real> order = score;
  for (size_t e = 0; e < logits.size() && router.bias; ++e) order[e] += Real(router.bias[e]);
  std::vector<int32_t> best(logits.size());
  std::iota(best.begin(), best.end(), 0);
  std::partial_sort(best.begin(), best.begin() + int64_t(chosen.size()), best.end(),
                    [&](int32_t a, int32_t b) {
                      const Real of_a = order[size_t(a)], of_b = order[size_t(b)];
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i].expert = best[i];
  const Real total = router_total<Real>(router, score, chosen);
  for (Choice& choice : chosen)
    choice.weight = float(score[size_t(choice.expert)] / total * Real(router.scale));
}

// weight_i = scale s_i / total, total the sum of the chosen s or 1
template <class Real>
void route_backward(const Router& router, std::span<const Real> logits,
                    std::span<const Choice> chosen, std::span<const Real> dweight,
                    std::span<Real> dlogits) {
  const std::vector<Real> score = router_scores(router.score, logits);
  const Real total = router_total<Real>(router, score, chosen), scale = Real(router.scale);
  std::vector<Real> dscore(logits.size());
  Real along = 0;
  for (size_t i = 0; i < chosen.size(); ++i)
    along += dweight[i] * score[size_t(chosen[i].expert)] / total;
  for (size_t i = 0; i < chosen.size(); ++i)
    dscore[size_t(chosen[i].expert)] =
        scale * (dweight[i] - (router.renormalize ? along : Real(0))) / total;
  Real mean = 0;
  for (size_t e = 0; e < logits.size(); ++e) mean += score[e] * dscore[e];
  for (size_t e = 0; e < logits.size(); ++e)
    dlogits[e] = router.score == RouterScore::softmax ? score[e] * (dscore[e] - mean)
                                                      : dscore[e] * score[e] * (1 - score[e]);
}

}  // namespace deltasane::kernel::reference
