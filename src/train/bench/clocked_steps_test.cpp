#include "train/bench/clocked_steps.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace deltasane::train {
namespace {

// Two kinds that differ by 3 million cycles, at clocks that fall from one step to the next: in
// seconds the second kind seems to take far more.
TEST(AtOneClock, WhatTheClockDidIsGone) {
  constexpr double waits = 0.08, work[2] = {200e6, 203e6};
  std::vector<ClockedSteps> kinds(2);
  double clock = 1.8e9, sum = 0;
  for (int step = 0; step < 12; ++step, clock -= 1e7) {
    const double cycles = work[step % 2] + waits * clock;
    kinds[size_t(step % 2)].push_back({cycles / clock, cycles});
    sum += clock;
  }
  const double mean = sum / 12;
  EXPECT_GT(kinds[1][0].seconds - kinds[0][0].seconds, 1.2 * 3e6 / mean);
  const std::vector<ClockedSteps> found = at_one_clock(kinds);
  for (size_t kind = 0; kind < 2; ++kind)
    for (const ClockedStep& step : found[kind]) {
      const double seconds = work[kind] / mean + waits;
      EXPECT_NEAR(step.seconds, seconds, 1e-12 * seconds);
      EXPECT_NEAR(step.clock(), mean, 1e-12 * mean);
    }
}

// A clock that stood still tells nothing about a slope, and nothing is to be taken off.
TEST(AtOneClock, OneClockIsLeftAlone) {
  const std::vector<ClockedSteps> found = at_one_clock({{{0.5, 1e9}}, {{0.25, 5e8}}});
  EXPECT_EQ(found[0][0].seconds, 0.5);
  EXPECT_EQ(found[1][0].seconds, 0.25);
}

}  // namespace
}  // namespace deltasane::train
