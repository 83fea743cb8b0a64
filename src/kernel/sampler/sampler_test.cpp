#include "kernel/sampler/sampler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kernel/sampler/logits_fixture.h"
#include "kernel/sampler/sampler_bench.h"
#include "kernel/sampler/sampler_reference.h"
#include "support/errors.h"

namespace deltasane {
namespace {

SamplerSettings with_penalties() {
  SamplerSettings settings{1.2, 0.95, 0};
  settings.presence_penalty = 0.4;
  settings.frequency_penalty = 0.3;
  settings.seed = 77;
  return settings;
}

// Draws many tokens and compares the counts with the definition by a chi-square sum. Tokens that
// are expected fewer than five times count as one. With more than a handful of degrees of freedom
// the sum is near normal; six deviations are never reached by chance.
void expect_frequencies(std::span<const float> logits, const SamplerSettings& settings) {
  constexpr int draws = 20000;
  const auto reference = test::reference_distribution(logits, settings);
  std::map<int32_t, int> seen;
  Sampler sampler(settings);
  for (int i = 0; i < draws; ++i) ++seen[sampler.next(logits)];
  double sum = 0, rare_expected = 0, rare_seen = 0;
  int freedom = -1;
  const auto add = [&](double expected, double found) {
    sum += (found - expected) * (found - expected) / expected;
    ++freedom;
  };
  for (const auto& [token, probability] : reference.probability) {
    if (draws * probability >= 5) {
      add(draws * probability, seen[token]);
    } else {
      rare_expected += draws * probability;
      rare_seen += seen[token];
    }
    seen.erase(token);
  }
  if (rare_expected >= 5) add(rare_expected, rare_seen);
  EXPECT_TRUE(seen.empty()) << "token " << seen.begin()->first << " should never be drawn";
  EXPECT_LT(sum, freedom + 6 * std::sqrt(2.0 * freedom) + 6) << freedom << " degrees of freedom";
}

TEST(Sampler, DrawsAsOftenAsTheDefinitionSays) {
  const std::vector<float> logits = test::normal_logits(400, 2, 1);
  expect_frequencies(logits, {1, 0.8, 20});
  expect_frequencies(logits, {1, 1, 0});
  expect_frequencies(logits, {0.7, 0.95, 0});
  expect_frequencies(logits, {1.5, 0.99, 0});  // more tokens than the list takes
  SamplerSettings after{1.8, 0.7, 0};
  after.temperature_order = TemperatureOrder::after_filters;
  expect_frequencies(logits, after);
  expect_frequencies(std::vector<float>{0, -1, -test::infinity, 0.5f}, {1, 1, 0});
}

TEST(Sampler, TakesTheMostProbableTokenAtTemperatureZero) {
  Sampler sampler({0, 0.8, 20});
  EXPECT_EQ(sampler.next(std::vector<float>{1, 3, 2, 3}), 1);  // the lowest of equal ones
  EXPECT_EQ(sampler.next(std::vector<float>{-test::infinity, -5, -test::infinity}), 1);
  EXPECT_EQ(Sampler({1, 0.8, 1}).next(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(Sampler({1, 0, 0}).next(std::vector<float>{1, 3, 2, 3}), 1);
}

TEST(Sampler, ADrawDependsOnSeedStreamAndNumberOnly) {
  const std::vector<float> logits = test::normal_logits(500, 1, 3);
  SamplerSettings settings{1, 1, 0};
  settings.seed = 5;
  std::vector<std::vector<int32_t>> drawn(3);
  Sampler a(settings, 0), b(settings, 1), c(settings, 2);
  for (int i = 0; i < 50; ++i) {
    drawn[0].push_back(a.next(logits));
    drawn[1].push_back(b.next(logits));
    drawn[2].push_back(c.next(logits));
  }
  Sampler alone(settings, 1);  // only one of the samples, made again
  for (int i = 0; i < 50; ++i) EXPECT_EQ(alone.next(logits), drawn[1][size_t(i)]);
  Sampler later(settings, SamplerState{5, 2, 30, {}});  // only the end of one
  for (int i = 30; i < 50; ++i) EXPECT_EQ(later.next(logits), drawn[2][size_t(i)]);
  EXPECT_NE(drawn[0], drawn[1]);
  settings.seed = 6;
  Sampler other(settings, 1);
  int same = 0;
  for (int i = 0; i < 50; ++i) same += other.next(logits) == drawn[1][size_t(i)];
  EXPECT_LT(same, 10);
}

TEST(Sampler, SamplesTheSameTokensOnEveryMachine) {
  const std::vector<float> logits{0.5f, 1.25f, -0.75f, 2.0f, 0.0f, -3.5f, 1.0f, 0.125f};
  SamplerSettings settings{0.9, 1, 0};
  settings.seed = 2024;
  Sampler sampler(settings, 7);
  std::string drawn;
  for (int i = 0; i < 32; ++i) drawn += char('0' + sampler.next(logits));
  EXPECT_EQ(drawn, "21063143637364363330134303334403");
}

TEST(Sampler, PenalisesWhatWasSampled) {
  SamplerSettings settings{0, 1, 0};
  settings.presence_penalty = 1;
  settings.frequency_penalty = 0.5;
  settings.penalty_decay = 0.5;
  Sampler sampler(settings);
  const std::vector<float> logits{3, 2, 0};
  EXPECT_EQ(sampler.next(logits), 0);
  EXPECT_EQ(sampler.next(logits), 1);  // 3 - 1 - 0.5 is below 2
  EXPECT_EQ(sampler.next(logits), 0);  // 3 - 1 - 0.25 against 2 - 1 - 0.5
  EXPECT_EQ(sampler.state().counts, (std::vector<TokenCount>{{0, 1.25}, {1, 0.5}}));
}

TEST(Sampler, PenaltiesFollowTheDefinition) {
  const SamplerSettings settings = with_penalties();
  Sampler sampler(settings);
  for (uint64_t step = 0; step < 200; ++step) {
    const std::vector<float> logits = test::normal_logits(60, 1, step);
    const auto reference = test::reference_distribution(logits, settings, sampler.state().counts);
    const int32_t token = sampler.next(logits);
    EXPECT_TRUE(reference.margin < 1e-6 || reference.probability.contains(token)) << step;
  }
  EXPECT_EQ(sampler.state().draws, 200u);
}

TEST(Sampler, GoesOnExactly) {
  const SamplerSettings settings = with_penalties();
  for (const int stop : {0, 1, 17, 59}) {
    Sampler whole(settings, 4), first(settings, 4);
    for (int i = 0; i < stop; ++i) {
      const std::vector<float> logits = test::normal_logits(300, 2, uint64_t(i));
      EXPECT_EQ(first.next(logits), whole.next(logits));
    }
    Sampler resumed(settings, SamplerState::load(first.state().save()));
    Sampler copy = whole;
    for (int i = stop; i < 60; ++i) {
      const std::vector<float> logits = test::normal_logits(300, 2, uint64_t(i));
      const int32_t expected = whole.next(logits);
      EXPECT_EQ(resumed.next(logits), expected);
      EXPECT_EQ(copy.next(logits), expected);
    }
    EXPECT_EQ(resumed.state(), whole.state());
  }
}

TEST(Sampler, NeverDrawsFromNumbersThatAreNotFinite) {
  for (const double temperature : {0.0, 1.0})
    for (const float wrong : {test::nan, -test::nan, test::infinity})
      for (const size_t at : {0, 1, 15, 16, 40}) {
        std::vector<float> logits(41, 1.0f);
        logits[at] = wrong;
        Sampler sampler({temperature, 0.8, 20});
        EXPECT_FAULT(sampler.next(logits, 99), Fault::overflow,
                     cat("logits at position 99: token ", at, ":"));
        EXPECT_FAULT(sampler.next(logits), Fault::overflow, cat("logits: token ", at, ":"));
        EXPECT_EQ(sampler.state(), SamplerState{});
      }
  Sampler sampler({1, 0.8, 20});
  EXPECT_FAULT(sampler.next(std::vector<float>(5, -test::infinity)), Fault::argument, "none of 5");
  EXPECT_FAULT(sampler.next({}), Fault::argument, "none of 0");
}

TEST(Sampler, RefusesSettingsThatMakeNoSense) {
  const auto refuses = [](auto change, std::string_view part) {
    SamplerSettings settings;
    change(settings);
    EXPECT_FAULT(Sampler{settings}, Fault::usage, part);
  };
  for (const double wrong :
       {double(test::nan), double(test::infinity), -double(test::infinity), -1.0, 1e9, 1e-9})
    refuses([&](auto& s) { s.temperature = wrong; }, "temperature: expected 0");
  for (const double wrong : {double(test::nan), double(test::infinity), -0.1, 1.0001})
    refuses([&](auto& s) { s.top_p = wrong; }, "top-p: expected a number from 0 to 1, found ");
  refuses([&](auto& s) { s.top_k = -1; }, "top-k: expected 0 (off) or more, found -1");
  for (const double wrong : {double(test::nan), double(test::infinity), -1001.0, 1001.0}) {
    refuses([&](auto& s) { s.presence_penalty = wrong; }, "presence penalty: expected");
    refuses([&](auto& s) { s.frequency_penalty = wrong; }, "frequency penalty: expected");
  }
  for (const double wrong : {double(test::nan), -0.1, 1.1})
    refuses([&](auto& s) { s.penalty_decay = wrong; }, "penalty decay: expected");
}

TEST(Sampler, ExtremesOfTheSettingsWork) {
  const std::vector<float> logits = test::normal_logits(1000, 3, 9);
  for (const double temperature : {0.001, 1000.0})
    for (const double top_p : {0.0, 1.0})
      for (const int64_t top_k : {int64_t{1}, INT64_MAX})
        for (const double penalty : {-1000.0, 1000.0}) {
          SamplerSettings settings{temperature, top_p, top_k, penalty, penalty};
          settings.penalty_decay = 1;
          Sampler sampler(settings);
          for (int i = 0; i < 20; ++i) {
            const int32_t token = sampler.next(logits);
            EXPECT_TRUE(token >= 0 && token < 1000);
          }
        }
}

TEST(Sampler, RefusesAStateOfALargerVocabulary) {
  Sampler sampler(with_penalties(), SamplerState{0, 0, 1, {{9, 1.0}}});
  EXPECT_FAULT(sampler.next(std::vector<float>(9, 0.0f)), Fault::argument,
               "expected tokens below 9, found 9");
}

TEST(Sampler, IsMeasured) {
  for (const double deviation : {3.0, 1.0, 0.0}) {
    const auto microseconds = [&](double top_p, int64_t top_k) {
      return int(1e6 * measure_sampler({1, top_p, top_k}, 65536, deviation, 0.05).median);
    };
    RecordProperty(cat("us_default_deviation_", deviation), microseconds(0.8, 20));
    RecordProperty(cat("us_top_p_deviation_", deviation), microseconds(0.8, 0));
    RecordProperty(cat("us_no_filter_deviation_", deviation), microseconds(1, 0));
  }
}

}  // namespace
}  // namespace deltasane
