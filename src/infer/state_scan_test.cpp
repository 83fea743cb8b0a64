#include "infer/state_scan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "infer/state_fixture.h"
#include "kernel/sampler/logits_fixture.h"
#include "kernel/sampler/logits_scan.h"
#include "support/errors.h"

namespace deltasane {
namespace {

std::shared_ptr<const StateLayout> three_layers() { return test::uniform_layout(3, 10, 2, 5); }

SequenceState random_state() {
  SequenceState state(three_layers());
  Random random(1);
  for (float& value : test::mutable_memories(state)) value = float(random.normal());
  for (float& value : test::mutable_shifts(state)) value = float(random.normal());
  return state;
}

TEST(StateScan, FindsTheLargestNumber) {
  SequenceState state = random_state();
  EXPECT_TRUE(scan_state(state).finite());
  for (const float largest : {-123.5f, 1e38f, -std::numeric_limits<float>::max()}) {
    test::mutable_memories(state)[77] = largest;
    EXPECT_TRUE(scan_state(state).finite());
    EXPECT_EQ(scan_state(state).largest, std::abs(largest));
  }
  EXPECT_EQ(scan_state(SequenceState(three_layers())).largest, 0.0f);
  EXPECT_TRUE(scan_state(SequenceState()).finite());
}

TEST(StateScan, NamesEveryPlaceInTheMemory) {
  for (const float wrong : {test::nan, -test::nan, test::infinity, -test::infinity})
    for (int64_t layer = 0; layer < 3; ++layer)
      for (int64_t head = 0; head < 2; ++head)
        for (int64_t row = 0; row < 5; ++row)
          for (int64_t column = 0; column < 5; ++column) {
            SequenceState state = random_state();
            test::memory_view(state)(layer, head, row, column) = wrong;
            const StateScan scan = scan_state(state);
            ASSERT_FALSE(scan.finite());
            EXPECT_EQ(scan.not_finite->part, "memory");
            EXPECT_EQ(scan.not_finite->layer, layer);
            EXPECT_EQ(scan.not_finite->head, std::optional(head));
            EXPECT_EQ(scan.not_finite->row, row);
            EXPECT_EQ(scan.not_finite->column, column);
            EXPECT_EQ(scan.largest, test::infinity);
          }
}

TEST(StateScan, NamesEveryPlaceInTheShifts) {
  for (int64_t layer = 0; layer < 3; ++layer)
    for (int64_t which = 0; which < 2; ++which)
      for (int64_t channel = 0; channel < 10; ++channel) {
        SequenceState state = random_state();
        test::shift_view(state)(layer, which, channel) = test::nan;
        const StateScan scan = scan_state(state);
        ASSERT_FALSE(scan.finite());
        EXPECT_EQ(scan.not_finite->part, which ? "channel mix shift" : "time mix shift");
        EXPECT_EQ(scan.not_finite->head, std::nullopt);
        EXPECT_EQ(scan.not_finite->layer, layer);
        EXPECT_EQ(scan.not_finite->column, channel);
        EXPECT_LT(scan.largest, 10.0f);
      }
}

TEST(StateScan, NamesEveryPlaceOfLayersOfSeveralKinds) {
  const SequenceState whole = test::mixed_state(1);
  EXPECT_TRUE(scan_state(whole).finite());
  EXPECT_EQ(scan_state(whole).largest, largest_magnitude(test::memories(whole)));
  for (const StatePart& part : whole.layout().parts())
    for (size_t i = 0; i < whole.of(part).size(); ++i) {
      SequenceState state = whole.clone();
      state.mutable_of(part)[i] = -test::infinity;
      const StateScan scan = scan_state(state);
      ASSERT_FALSE(scan.finite());
      EXPECT_EQ(scan.not_finite->part, part.name);
      EXPECT_EQ(scan.not_finite->layer, part.layer);
      EXPECT_EQ(scan.not_finite->value, -test::infinity);
      const auto at = int64_t(i);
      if (part.kind == StateKind::memory) {  // (2, 3, 2)
        EXPECT_EQ(scan.not_finite->head, std::optional(at / 6));
        EXPECT_EQ(scan.not_finite->row, at % 6 / 2);
        EXPECT_EQ(scan.not_finite->column, at % 2);
      } else {
        const int64_t width = part.grows() ? part.floats() : part.shape[part.shape.rank() - 1];
        EXPECT_EQ(scan.not_finite->head, std::nullopt);
        EXPECT_EQ(scan.not_finite->row.value_or(0), at / width);
        EXPECT_EQ(scan.not_finite->column, at % width);
      }
    }
}

TEST(StateScan, FindsTheFirst) {
  SequenceState state = random_state();
  test::mutable_shifts(state)[0] = test::nan;
  test::mutable_memories(state)[120] = test::infinity;
  test::mutable_memories(state)[60] = test::nan;
  EXPECT_EQ(scan_state(state).not_finite->layer, 1);
  EXPECT_EQ(scan_state(state).not_finite->row, 2);
}

TEST(StateScan, LogitsMayBeBannedButNotBroken) {
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

TEST(StateScan, SaysWhereAndWhatToDo) {
  EXPECT_EQ(overflow_message(StatePlace{"memory", 3, 7, 1, 60, test::nan}, 20000000),
            "state overflowed at position 20000000 in layer 3, head 7: row 1, column 60 is NaN; "
            "let the state be reset where it overflows, or use SANE (alpha 3)");
  EXPECT_EQ(
      overflow_message(StatePlace{"channel mix shift", 3, std::nullopt, std::nullopt, 60, -test::infinity}, 5),
      "state overflowed at position 5 in layer 3, channel mix shift: channel 60 is "
      "-infinity; let the state be reset where it overflows, or use SANE (alpha 3)");
  EXPECT_EQ(overflow_message(1, test::infinity, 12),
            "logits at position 12: token 1: expected a finite number or -infinity (banned), "
            "found infinity");
}

TEST(StateScan, PoliciesHaveNames) {
  for (const OnOverflow policy : {OnOverflow::stop, OnOverflow::reset})
    EXPECT_EQ(on_overflow_named(name_of(policy)), policy);
  EXPECT_FAULT(on_overflow_named("ignore"), Fault::usage, "expected stop or reset, found 'ignore'");
}

}  // namespace
}  // namespace deltasane
