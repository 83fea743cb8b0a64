#include "model/log_probability.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace deltasane {

double log_probability(std::span<const float> logits, int32_t token) {
  require(token >= 0 && size_t(token) < logits.size(), "the token is in the vocabulary");
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - double(largest));
  return double(logits[size_t(token)]) - double(largest) - std::log(sum);
}

}  // namespace deltasane
