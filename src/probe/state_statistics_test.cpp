#include "probe/state_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "model/fixture_forward.h"

namespace deltasane::probe {
namespace {

// The definition: sorted, counted and added up one by one.
HeadStatistics plainly(std::span<const float> entries, double tau) {
  HeadStatistics found;
  std::vector<double> sizes;
  long double squares = 0;
  for (const float entry : entries) {
    sizes.push_back(std::abs(double(entry)));
    squares += (long double)(entry) * (long double)(entry);
  }
  std::ranges::sort(sizes);
  const auto share = [&](auto holds) {
    return double(std::ranges::count_if(sizes, holds)) / double(sizes.size());
  };
  const auto quantile = [&](double part) {
    for (size_t i = 0; i < sizes.size(); ++i)
      if (double(i + 1) >= part * double(sizes.size())) return sizes[i];
    return sizes.back();
  };
  found.norm = double(std::sqrt(squares));
  found.largest = sizes.back();
  found.median = quantile(0.5), found.q99 = quantile(0.99), found.q9999 = quantile(0.9999);
  found.above_10 = share([](double s) { return s > 10; });
  found.above_100 = share([](double s) { return s > 100; });
  found.below_01 = share([](double s) { return s < 0.1; });
  if (tau > 0) {
    found.near_identity = share([&](double s) { return s <= 0.1 * tau; });
    found.saturated = share([&](double s) { return s >= 0.9 * tau; });
    found.transition = share([&](double s) { return s > 0.1 * tau && s < 0.9 * tau; });
  }
  return found;
}

void expect_near(const HeadStatistics& found, const HeadStatistics& expected, size_t entries) {
  // n additions of positive numbers in double: n roundings at most
  EXPECT_NEAR(found.norm, expected.norm, expected.norm * double(entries) * 0x1p-52);
  const double ulp = 0x1p-52;
  EXPECT_EQ(found.largest, expected.largest);
  EXPECT_EQ(found.median, expected.median);
  EXPECT_EQ(found.q99, expected.q99);
  EXPECT_EQ(found.q9999, expected.q9999);
  EXPECT_NEAR(found.above_10, expected.above_10, ulp);
  EXPECT_NEAR(found.above_100, expected.above_100, ulp);
  EXPECT_NEAR(found.below_01, expected.below_01, ulp);
  EXPECT_NEAR(found.near_identity, expected.near_identity, ulp);
  EXPECT_NEAR(found.transition, expected.transition, ulp);
  EXPECT_NEAR(found.saturated, expected.saturated, ulp);
}

TEST(StateStatistics, AreWhatTheDefinitionSays) {
  Random random(1);
  for (const size_t size : {1u, 2u, 3u, 64u, 99u, 100u, 101u, 4096u, 9999u, 10001u})
    for (const double scale : {1e-3, 1.0, 30.0, 1e19})
      for (const double tau : {0.0, 1.0, 3.0794415}) {
        std::vector<float> entries(size);
        for (float& entry : entries)
          entry = float(scale * random.normal() * std::exp(random.normal()));
        expect_near(statistics_of(entries, tau), plainly(entries, tau), size);
      }
}

TEST(StateStatistics, CountEntriesOnALimitAsTheDefinitionDoes) {
  const std::vector<float> entries{10, 100, -10, std::nextafter(10.0f, 11.0f), -101, 0, 1, 9};
  expect_near(statistics_of(entries, 10), plainly(entries, 10), entries.size());
  EXPECT_EQ(statistics_of(entries, 10).above_10, 3.0 / 8);
  EXPECT_EQ(statistics_of(entries, 10).above_100, 1.0 / 8);
  EXPECT_EQ(statistics_of(entries, 10).near_identity, 2.0 / 8);
  EXPECT_EQ(statistics_of(entries, 10).saturated, 6.0 / 8);
}

TEST(StateStatistics, SayThatNumbersWereLost) {
  for (const float lost :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> entries(64, 1.0f);
    entries[7] = -lost;
    const HeadStatistics found = statistics_of(entries, 0);
    EXPECT_TRUE(std::isinf(found.norm));
    EXPECT_TRUE(std::isinf(found.largest));
    EXPECT_EQ(found.median, 1);
  }
}

TEST(StateStatistics, TakeEachHeadWithItsOwnTau) {
  SequenceState state(test::uniform_layout(2, 8, 2, 4));
  for (size_t i = 0; i < test::memories(state).size(); ++i)
    test::mutable_memories(state)[i] = float(i / 16 + 1);
  TauRecord taus(state.layout());
  taus.add(0, std::vector<float>{1, 100, 2, 200});
  taus.add(1, std::vector<float>{3, 4});
  ThreadPool threads(2);
  const auto all = statistics_of(state, &taus, threads);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[1].largest, 2);
  EXPECT_EQ(all[1].norm, 8);
  EXPECT_EQ(all[1].near_identity, 1);  // 2 / 200
  EXPECT_EQ(all[0].transition, 1);     // 1 / 2
  EXPECT_EQ(all[3].saturated, 1);      // 4 / 4
  EXPECT_DOUBLE_EQ(whole_norm(all), 4 * std::sqrt(1.0 + 4 + 9 + 16));
  EXPECT_EQ(taus[1].sum, 300);
  EXPECT_EQ(taus[1].low, 100);
  EXPECT_EQ(taus[1].high, 200);
  EXPECT_EQ(taus[1].count, 2);
}

}  // namespace
}  // namespace deltasane::probe
