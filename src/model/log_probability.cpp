#include "model/log_probability.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernel/sampler/token_selection.h"

namespace deltasane {

namespace {

struct LogSoftmax {
  double largest, log_sum;
  explicit LogSoftmax(std::span<const float> logits)
      : largest(double(*std::max_element(logits.begin(), logits.end()))) {
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - largest);
    log_sum = std::log(sum);
  }
  double operator()(float logit) const { return double(logit) - largest - log_sum; }
};

}  // namespace

double log_probability(std::span<const float> logits, int32_t token) {
  require(token >= 0 && size_t(token) < logits.size(), "the token is in the vocabulary");
  return LogSoftmax(logits)(logits[size_t(token)]);
}

void take_top(std::span<const float> logits, std::span<TokenLogProbability> top) {
  const LogSoftmax log_softmax(logits);
  const std::vector<TokenLogit> largest = largest_logits(logits, int64_t(top.size()));
  for (size_t i = 0; i < top.size(); ++i)
    top[i] = i < largest.size()
                 ? TokenLogProbability{largest[i].token, log_softmax(largest[i].logit)}
                 : TokenLogProbability{-1, -std::numeric_limits<double>::infinity()};
}

}  // namespace deltasane
