#include "kernel/sampler/sampler_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace deltasane::test {
namespace {

struct Token {
  int32_t id;
  double logit, probability;
};

void softmax(std::vector<Token>& tokens, double temperature) {
  double sum = 0;
  for (const Token& token : tokens) sum += std::exp((token.logit - tokens[0].logit) / temperature);
  for (Token& token : tokens)
    token.probability = std::exp((token.logit - tokens[0].logit) / temperature) / sum;
}

}  // namespace

ReferenceDistribution reference_distribution(std::span<const float> logits,
                                             const SamplerSettings& settings,
                                             std::span<const TokenCount> counts) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); ++i) tokens.push_back({int32_t(i), logits[i], 0});
  for (const TokenCount& entry : counts)
    tokens[size_t(entry.token)].logit = float(  // logits are floats, penalised or not
        tokens[size_t(entry.token)].logit -
        float(settings.presence_penalty + settings.frequency_penalty * entry.count));
  std::ranges::stable_sort(tokens, std::ranges::greater{}, &Token::logit);
  std::erase_if(tokens, [](const Token& token) { return std::isinf(token.logit); });

  const bool after = settings.temperature_order == TemperatureOrder::after_filters;
  if (settings.temperature == 0) {
    tokens.resize(1);
  } else {
    softmax(tokens, after ? 1 : settings.temperature);
    if (settings.top_k > 0 && settings.top_k < int64_t(tokens.size()))
      tokens.resize(size_t(settings.top_k));
  }
  ReferenceDistribution distribution;
  if (settings.top_p < 1) {
    double mass = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      mass += tokens[i].probability;
      distribution.margin = std::min(distribution.margin, std::abs(mass - settings.top_p));
      if (mass >= settings.top_p) tokens.resize(i + 1);
    }
  }
  softmax(tokens, settings.temperature == 0 ? 1 : settings.temperature);
  for (const Token& token : tokens) distribution.probability[token.id] = token.probability;
  return distribution;
}

}  // namespace deltasane::test
