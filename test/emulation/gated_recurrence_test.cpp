// The GPU kernels of the gated rules against the definition, on the host: by the same check as on a
// GPU, with fewer and smaller cases.
#include <gtest/gtest.h>

#include "emulation/block.h"
#include "kernel/delta_rule/bench/gated_check.h"
#include "support/errors.h"

namespace deltasane::kernel::cuda {
namespace {

class RecurrenceOf : public testing::TestWithParam<Rule> {
 protected:
  void TearDown() override { emulation::emulated_gpu() = {}; }
  void check(GatedShape shape, Checked checked = Checked::forward_and_backward) {
    const Gpu gpu(0);
    shape.rule = GetParam();
    for (const std::string& fault : check_gated(shape, ++seed_, checked, gpu))
      ADD_FAILURE() << fault;
  }
  uint64_t seed_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Rules, RecurrenceOf,
                         testing::Values(Rule::deltanet, Rule::gated_deltanet, Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

TEST_P(RecurrenceOf, AFewTiles) {
  check({.time = 37, .tau_low = 0, .tau_high = 0});
  check({.batch = 2, .time = 69, .position = 16, .save_states = true});
}
TEST_P(RecurrenceOf, ManyHeads) {
  emulation::emulated_gpu().multiprocessors = 2;
  check({.time = 37, .heads = 2, .tau_low = 0.4, .tau_high = 12});
  check({.time = 53, .heads = 2, .tau_low = 7, .tau_high = 9, .position = 5, .save_states = true});
  emulation::emulated_gpu().capability = 80;  // without bulk copies
  check({.time = 37, .heads = 2, .tau_low = 0.4, .tau_high = 12});
}
TEST_P(RecurrenceOf, HeadsThatShareKeys) {
  check({.time = 21, .key_heads = 2, .heads = 4, .values = 32});
}
TEST_P(RecurrenceOf, OtherSizes) {
  check({.time = 17, .keys = 128, .values = 32});
  check({.time = 17, .keys = 96, .values = 64});
  check({.time = 85, .keys = 256, .values = 32});  // several rounds of three stages
  emulation::emulated_gpu().multiprocessors = 1;
  check({.time = 17, .keys = 128});
  check({.time = 37, .keys = 256, .values = 32});
}
TEST_P(RecurrenceOf, StrongDecays) {
  check({.time = 33, .tau_low = 7, .tau_high = 9, .strongest = 5});
  check({.time = 33, .strongest = 20, .with_zeros = true});
  check({.time = 33, .strongest = 80, .with_zeros = true, .state_scale = 30}, Checked::forward);
}
TEST_P(RecurrenceOf, AnyPosition) {
  check({.time = 37, .heads = 2, .position = 11});
  check({.time = 3, .position = 13});
  check({.time = 1, .heads = 2, .position = 15}, Checked::forward);
}
TEST_P(RecurrenceOf, CutIntoCalls) {
  constexpr int64_t calls[] = {5, 1, 1, 30, 16, 9, 1, 1};
  const GatedShape shape{.rule = GetParam(), .time = 64, .heads = 3, .position = 9};
  for (const std::string& fault : check_gated_calls(shape, 1, calls, Gpu(0)))
    ADD_FAILURE() << fault;
}
TEST_P(RecurrenceOf, OfALongSequenceEqualsItsParts) {
  for (const int multiprocessors : {2, 1}) {  // few heads, of more tiles than warps; many heads
    emulation::emulated_gpu().multiprocessors = multiprocessors;
    EXPECT_TRUE(gated_equals_its_parts(
        {.rule = GetParam(), .time = 20 * 16 + 5, .tau_low = 0.4, .tau_high = 12}, 48, Gpu(0)));
  }
}
TEST_P(RecurrenceOf, OfDifferentLengthsEqualsEachAlone) {
  constexpr int32_t lengths[] = {53, 16, 1, 37};
  EXPECT_TRUE(gated_lengths_are_alone(
      {.rule = GetParam(), .batch = 4, .time = 53, .heads = 2, .position = 7}, lengths, Gpu(0)));
}
TEST_P(RecurrenceOf, RefusesWhatItHasNoKernelsFor) {
  EXPECT_FAULT(check({.time = 2, .keys = 80}), Fault::argument, "key channels per head");
  EXPECT_FAULT(check({.time = 2, .values = 24}), Fault::argument, "value channels per head");
  emulation::emulated_gpu().shared = 24 * 1024;
  EXPECT_FAULT(check({.time = 2}), Fault::device, "KiB of shared memory a block");
}

}  // namespace
}  // namespace deltasane::kernel::cuda
