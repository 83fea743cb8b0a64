#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace deltasane {
namespace {

// Nearest of all 65,536 values, ties to the even one: by exhaustive search, not by bit tricks.
template <class Half>
Half nearest(float x) {
  Half best = Half::from_bits(0);
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const Half candidate = Half::from_bits(uint16_t(bits));
    const float value = float(candidate);
    if (!std::isfinite(value) || std::signbit(value) != std::signbit(x)) continue;
    const double distance = std::abs(double(value) - double(x));
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

template <class Half>
void expect_every_value_round_trips() {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const Half value = Half::from_bits(uint16_t(bits));
    if (std::isnan(float(value)))
      EXPECT_TRUE(std::isnan(float(Half(float(value)))));
    else
      EXPECT_EQ(Half(float(value)).bits, bits);
  }
}

TEST(Half, EveryValueRoundTripsThroughFloat) {
  expect_every_value_round_trips<f16>();
  expect_every_value_round_trips<bf16>();
}

TEST(Half, RoundsToNearestTiesToEven) {
  for (const float x : {1.0f, 1.0004f, 1.00048828125f, 1.00146484375f, -0.1f, 65503.9f, 6.1e-5f,
                        6.0e-8f, 2.98e-8f, 8.94e-8f, 3.14159f, -1234.567f})
    EXPECT_EQ(f16(x).bits, nearest<f16>(x).bits) << x;
  for (const float x : {1.0f, 1.00390625f, 1.01171875f, -0.1f, 3.3e38f, 1e-38f, 1e-40f, 3.14159f})
    EXPECT_EQ(bf16(x).bits, nearest<bf16>(x).bits) << x;
}

TEST(Half, KnowsInfinityAndOverflow) {
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(f16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

}  // namespace
}  // namespace deltasane
