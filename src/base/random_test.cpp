#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deltasane {
namespace {

// The published known-answer vectors of Philox 4x32-10.
TEST(Random, MatchesThePublishedVectors) {
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox(~0ull, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull),
            (std::array<uint32_t, 4>{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Random, ResumesFromASavedPosition) {
  Random whole(7, 3);
  for (int i = 0; i < 13; ++i) whole.word();
  Random resumed(7, 3, whole.position());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(resumed.word(), whole.word());
}

TEST(Random, DrawsEveryNumberBelowABoundEquallyOften) {
  Random random(1);
  std::array<int, 7> count{};
  for (int i = 0; i < 70000; ++i) ++count[random.below(7)];
  for (const int n : count) EXPECT_NEAR(n, 10000, 500);  // 5 deviations of a fair draw
}

TEST(Random, NormalHasItsMoments) {
  Random random(2);
  double sum = 0, squares = 0, fourths = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1.0, 5 * std::sqrt(2.0 / n));
  EXPECT_NEAR(fourths / n, 3.0, 5 * std::sqrt(96.0 / n));
}

}  // namespace
}  // namespace deltasane
