#include "kernel/sampler/token_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/cat.h"
#include "base/random.h"
#include "kernel/sampler/logits_fixture.h"
#include "kernel/sampler/sampler_reference.h"
#include "kernel/sampler/token_weights.h"

namespace deltasane {
namespace {

std::vector<TokenProbability> selected(std::span<const float> logits,
                                       const SamplerSettings& settings) {
  TokenSelection selection;
  selection.select(logits, *std::ranges::max_element(logits), settings);
  return selection.probabilities();
}

std::vector<int32_t> tokens_of(std::span<const float> logits, const SamplerSettings& settings) {
  std::vector<int32_t> tokens;
  for (const TokenProbability& kept : selected(logits, settings)) tokens.push_back(kept.token);
  std::ranges::sort(tokens);
  return tokens;
}

// A float's exponent is rounded: to 2^-24 of up to 88 / ln 2 in the exponent, and a few units more.
constexpr double weight_error = 1.3e-5;

void expect_as_reference(std::span<const float> logits, const SamplerSettings& settings,
                         int& compared) {
  const auto reference = test::reference_distribution(logits, settings);
  if (reference.margin < weight_error) return;  // one token more or less is right, too
  ++compared;
  std::map<int32_t, double> left = reference.probability;
  for (const TokenProbability& found : selected(logits, settings)) {
    const auto expected = left.find(found.token);
    ASSERT_NE(expected, left.end()) << "token " << found.token << " should not be kept";
    EXPECT_NEAR(found.probability, expected->second, weight_error * expected->second);
    left.erase(expected);
  }
  for (const auto& [token, probability] : left)  // weights below 2^-126 are zero
    EXPECT_LT(probability, 1.2e-38) << "token " << token << " should be kept";
}

TEST(TokenSelection, KeepsWhatTheDefinitionKeeps) {
  int compared = 0, all = 0;
  uint64_t seed = 0;
  for (const int64_t vocabulary : {1, 2, 7, 64, 65, 300, 1000, 3001})
    for (const double deviation : {0.01, 1.0, 3.0, 30.0})
      for (const double temperature : {0.3, 1.0, 2.5})
        for (const double top_p : {0.0, 0.3, 0.8, 0.999, 1.0})
          for (const int64_t top_k : {0, 1, 20, 290, 5000})
            for (const auto order :
                 {TemperatureOrder::before_filters, TemperatureOrder::after_filters}) {
              SamplerSettings settings{temperature, top_p, top_k};
              settings.temperature_order = order;
              SCOPED_TRACE(cat("vocabulary ", vocabulary, ", deviation ", deviation, ", T ",
                               temperature, ", top-p ", top_p, ", top-k ", top_k));
              expect_as_reference(test::normal_logits(vocabulary, deviation, ++seed), settings,
                                  compared);
              ++all;
              if (HasFatalFailure()) return;
            }
  EXPECT_GT(compared, all * 19 / 20);
}

TEST(TokenSelection, KeepsTheLowestOfEqualTokens) {
  const std::vector<float> four{1, 1, 1, 1};
  EXPECT_EQ(tokens_of(four, {1, 1, 2}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(tokens_of(four, {1, 0.5, 0}), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(tokens_of(four, {1, 0.51, 0}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(tokens_of(four, {1, 0, 0}), (std::vector<int32_t>{0}));
  const std::vector<float> flat(65536, -2.5f);  // a nucleus too large for a list
  std::vector<int32_t> half(32768);
  for (size_t i = 0; i < half.size(); ++i) half[i] = int32_t(i);
  EXPECT_EQ(tokens_of(flat, {1, 0.5, 0}), half);
}

TEST(TokenSelection, LeavesATopKThatHoldsLessThanTopPWhole) {
  const std::vector<float> logits{0, 0, 0, 0, 0, 0, 0, 0, 1, 0};  // the eighth has 0.23
  EXPECT_EQ(tokens_of(logits, {1, 0.8, 3}), (std::vector<int32_t>{0, 1, 8}));
  EXPECT_EQ(tokens_of(logits, {1, 0.2, 3}), (std::vector<int32_t>{8}));
}

TEST(TokenSelection, NeverKeepsBannedTokens) {
  const std::vector<float> logits{-test::infinity, 2, -test::infinity, 1, -test::infinity};
  for (const SamplerSettings& settings :
       {SamplerSettings{1, 1, 0}, {1, 1, 4}, {1, 0.99, 0}, {1000, 0.9999, 0}, {1000, 1, 0}})
    EXPECT_EQ(tokens_of(logits, settings), (std::vector<int32_t>{1, 3}));
  std::vector<float> large(10000, -test::infinity);
  for (size_t i = 0; i < large.size(); i += 2) large[i] = 0;
  EXPECT_EQ(tokens_of(large, {1, 0.5, 0}).size(), 2500u);
}

TEST(TokenSelection, SurvivesTheLargestAndSmallestLogits) {
  constexpr float huge = std::numeric_limits<float>::max();
  const std::vector<float> logits{-huge, huge, 0, 1e-45f, -test::infinity, huge};
  for (const double temperature : {0.001, 1.0, 1000.0})
    EXPECT_EQ(tokens_of(logits, {temperature, 1, 0}), (std::vector<int32_t>{1, 5}));
  std::vector<float> many(5000, huge);
  EXPECT_EQ(tokens_of(many, {1, 0.5, 0}).size(), 2500u);
}

TEST(TokenSelection, FindsTheLargestLogitsInOrder) {
  for (const int64_t count : {0, 1, 5, 64, 100, 999, 1000, 5000}) {
    std::vector<float> logits = test::normal_logits(1000, 1, uint64_t(count));
    for (float& logit : logits) logit = std::round(logit * 8) / 8;  // many are equal
    std::vector<int32_t> expected(logits.size());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = int32_t(i);
    std::ranges::stable_sort(expected, std::ranges::greater{},
                             [&](int32_t token) { return logits[size_t(token)]; });
    expected.resize(size_t(std::min<int64_t>(count, 1000)));
    std::vector<int32_t> found;
    for (const TokenLogit& token : largest_logits(logits, count)) found.push_back(token.token);
    EXPECT_EQ(found, expected) << count;
    std::ranges::sort(logits);  // each one displaces another
    EXPECT_EQ(largest_logits(logits, count).size(), expected.size());
  }
}

TEST(TokenSelection, FindsNoBannedTokensAmongTheLargest) {
  EXPECT_EQ(largest_logits(std::vector<float>{-test::infinity, 1, -test::infinity, -1}, 3).size(),
            2u);
  EXPECT_TRUE(largest_logits(std::vector<float>(100, -test::infinity), 3).empty());
}

TEST(TokenWeights, AreExponentials) {
  std::vector<float> logits, weights(20001);
  for (int i = 0; i <= 20000; ++i) logits.push_back(float(i - 20000) * 0.005f);
  fill_weights(logits, 0, 1, weights);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double truth = std::exp(double(logits[i]));
    const double allowed = truth < 1.2e-38 ? 1.2e-38 : truth * weight_error;
    ASSERT_NEAR(weights[i], truth, allowed) << logits[i];
  }
  EXPECT_EQ(weights.back(), 1.0f);
}

TEST(TokenWeights, FindsTheTokenAtAMass) {
  std::vector<float> weights(5000, 0.0f);
  weights[3] = 1;
  weights[2000] = 2;
  weights[4999] = 1;
  EXPECT_EQ(token_at_mass(weights, 0), 3);
  EXPECT_EQ(token_at_mass(weights, 0.999), 3);
  EXPECT_EQ(token_at_mass(weights, 1), 2000);
  EXPECT_EQ(token_at_mass(weights, 2.999), 2000);
  EXPECT_EQ(token_at_mass(weights, 3), 4999);
  EXPECT_EQ(token_at_mass(weights, 4), 4999);  // rounding may reach this
  weights[4999] = 0;
  EXPECT_EQ(token_at_mass(weights, 3), 2000);
}

}  // namespace
}  // namespace deltasane
