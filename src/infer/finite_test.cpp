#include "infer/finite.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "infer/logits_fixture.h"
#include "support/errors.h"

namespace deltasane {
namespace {

constexpr StateShape finite_shape{3, 10, 2, 5};

RecurrentState random_state() {
  RecurrentState state(finite_shape);
  Random random(1);
  for (float& value : state.mutable_memory().span()) value = float(random.normal());
  for (float& value : state.mutable_shift().span()) value = float(random.normal());
  return state;
}

TEST(Finite, FindsTheLargestNumber) {
  RecurrentState state = random_state();
  EXPECT_TRUE(scan_state(state).finite());
  for (const float largest : {-123.5f, 1e38f, -std::numeric_limits<float>::max()}) {
    state.mutable_memory()[77] = largest;
    EXPECT_TRUE(scan_state(state).finite());
    EXPECT_EQ(scan_state(state).largest, std::abs(largest));
  }
  EXPECT_EQ(scan_state(RecurrentState(finite_shape)).largest, 0.0f);
  EXPECT_TRUE(scan_state(RecurrentState()).finite());
}

TEST(Finite, NamesEveryPlaceInTheMemory) {
  for (const float wrong : {test::nan, -test::nan, test::infinity, -test::infinity})
    for (int64_t layer = 0; layer < 3; ++layer)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t row = 0; row < 5; ++row)
          for (int64_t column = 0; column < 5; ++column) {
            RecurrentState state = random_state();
            state.mutable_memory().view()(layer, head, row, column) = wrong;
            const StateScan scan = scan_state(state);
            ASSERT_FALSE(scan.finite());
            EXPECT_EQ(scan.not_finite->part, StatePart::memory);
            EXPECT_EQ(scan.not_finite->layer, layer);
            EXPECT_EQ(scan.not_finite->head, head);
            EXPECT_EQ(scan.not_finite->row, row);
            EXPECT_EQ(scan.not_finite->column, column);
            EXPECT_EQ(scan.largest, test::infinity);
          }
}

TEST(Finite, NamesEveryPlaceInTheShifts) {
  for (int64_t layer = 0; layer < 3; ++layer)
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t channel = 0; channel < 10; ++channel) {
        RecurrentState state = random_state();
        state.mutable_shift().view()(layer, which, channel) = test::nan;
        const StateScan scan = scan_state(state);
        ASSERT_FALSE(scan.finite());
        EXPECT_EQ(scan.not_finite->part, which ? StatePart::channel_shift : StatePart::time_shift);
        EXPECT_EQ(scan.not_finite->layer, layer);
        EXPECT_EQ(scan.not_finite->column, channel);
        EXPECT_LT(scan.largest, 10.0f);
      }
}

TEST(Finite, FindsTheFirst) {
  RecurrentState state = random_state();
  state.mutable_shift()[0] = test::nan;
  state.mutable_memory()[120] = test::infinity;
  state.mutable_memory()[60] = test::nan;
  EXPECT_EQ(scan_state(state).not_finite->layer, 1);
  EXPECT_EQ(scan_state(state).not_finite->row, 2);
}

TEST(Finite, LogitsMayBeBannedButNotBroken) {
  for (const size_t size : {0u, 1u, 15u, 16u, 17u, 100u}) {
    std::vector<float> logits(size, -test::infinity);
    EXPECT_EQ(scan_logits(logits).largest, -test::infinity);
    EXPECT_FALSE(scan_logits(logits).first_broken);
    for (size_t i = 0; i < size; ++i) {
      logits.assign(size, -2.0f);
      logits[i] = -1.0f;
      EXPECT_EQ(scan_logits(logits).largest, -1.0f);
      for (const float wrong : {test::nan, -test::nan, test::infinity}) {
        logits.assign(size, -test::infinity);
        logits[i] = logits.back() = wrong;
        EXPECT_EQ(scan_logits(logits).first_broken, int64_t(i));
      }
    }
  }
}

TEST(Finite, SaysWhereAndWhatToDo) {
  EXPECT_EQ(overflow_message(StatePlace{StatePart::memory, 3, 7, 1, 60, test::nan}, 20000000),
            "state overflowed at position 20000000 in layer 3, head 7: row 1, column 60 is NaN; "
            "use --on-overflow reset, or SANE (--sane-alpha 3)");
  EXPECT_EQ(overflow_message(StatePlace{StatePart::channel_shift, 3, 0, 0, 60, -test::infinity}, 5),
            "state overflowed at position 5 in layer 3, channel mix shift: channel 60 is "
            "-infinity; use --on-overflow reset, or SANE (--sane-alpha 3)");
  EXPECT_EQ(overflow_message(1, test::infinity, 12),
            "logits at position 12: token 1: expected a finite number or -infinity (banned), "
            "found infinity");
}

TEST(Finite, PoliciesHaveNames) {
  for (const OnOverflow policy : {OnOverflow::stop, OnOverflow::reset})
    EXPECT_EQ(on_overflow_named(name_of(policy)), policy);
  EXPECT_FAULT(on_overflow_named("ignore"), Fault::usage, "expected stop or reset, found 'ignore'");
}

}  // namespace
}  // namespace deltasane
