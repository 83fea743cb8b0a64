// The gated rules on a GPU against the definition.
#include "kernel/delta_rule/gated_cuda/gated_rule.h"

#include <gtest/gtest.h>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/delta_rule/bench/gated_check.h"

namespace deltasane::kernel::cuda {
namespace {

class GpuGatedRule : public GpuTest, public testing::WithParamInterface<Rule> {
 protected:
  void check(int64_t keys, int64_t values) {
    uint64_t seed = 1;
    for (const GatedShape& shape : gated_cases(GetParam(), keys, values))
      for (const std::string& fault :
           check_gated(shape, seed++, Checked::forward_and_backward, gpu()))
        ADD_FAILURE() << fault;
  }
};
INSTANTIATE_TEST_SUITE_P(Rules, GpuGatedRule,
                         testing::Values(Rule::deltanet, Rule::gated_deltanet, Rule::kda),
                         [](const auto& rule) { return std::string(name_of(rule.param)); });

TEST_P(GpuGatedRule, HeadsOf64) { check(64, 64); }
TEST_P(GpuGatedRule, HeadsOf128) { check(128, 128); }
TEST_P(GpuGatedRule, HeadsOf256) { check(256, 256); }
TEST_P(GpuGatedRule, HeadsOf96And192) { check(96, 192); }

TEST_P(GpuGatedRule, CutIntoCalls) {
  constexpr int64_t calls[] = {5, 1, 1, 30, 16, 9, 1, 1};
  const GatedShape shape{.rule = GetParam(), .time = 64, .heads = 3, .position = 9};
  for (const std::string& fault : check_gated_calls(shape, 1, calls, gpu())) ADD_FAILURE() << fault;
}
TEST_P(GpuGatedRule, OfALongSequenceEqualsItsParts) {
  const auto check = [&](int64_t heads, int64_t tiles) {
    EXPECT_TRUE(gated_equals_its_parts({.rule = GetParam(),
                                        .time = tiles * 16 + 5,
                                        .key_heads = heads,
                                        .heads = heads,
                                        .keys = 128,
                                        .tau_low = 0.4,
                                        .tau_high = 12},
                                       20 * 16, gpu()));
  };
  const int multiprocessors = gpu().properties().multiprocessors;
  check(2, 5 * multiprocessors);  // more tiles than there are warps for their terms
  check(multiprocessors / 2 + 1, 150);
}
TEST_P(GpuGatedRule, OfDifferentLengthsEqualsEachAlone) {
  constexpr int32_t lengths[] = {133, 16, 1, 37};
  EXPECT_TRUE(gated_lengths_are_alone(
      {.rule = GetParam(), .batch = 4, .time = 133, .heads = 2, .position = 7}, lengths, gpu()));
}

}  // namespace
}  // namespace deltasane::kernel::cuda
