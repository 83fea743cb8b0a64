// The operator on a GPU against the definition, by the rule of tensor/closeness.h.
#include "kernel/delta_rule/cuda.h"

#include <gtest/gtest.h>

#include "kernel/cuda/gpu_test_case.h"
#include "kernel/delta_rule/bench/cuda_check.h"

namespace deltasane::kernel::cuda {
namespace {

// By ranges of tau, so that a slow tool can run one of them.
class GpuRecurrenceWith : public GpuTest, public testing::WithParamInterface<TauRange> {
 protected:
  template <class Real>
  void check() {
    uint64_t seed = 1;
    for (const ProblemShape& shape : gpu_delta_rule_cases(gpu(), GetParam()))
      for (const std::string& fault : check_delta_rule<Real>(shape, seed++, gpu()))
        ADD_FAILURE() << fault;
  }
};
TEST_P(GpuRecurrenceWith, IsAsCloseToTheDefinitionAsPlainFloats) { check<float>(); }
TEST_P(GpuRecurrenceWith, IsAsCloseToTheDefinitionAsPlainArithmeticOfBf16) { check<bf16>(); }
INSTANTIATE_TEST_SUITE_P(Taus, GpuRecurrenceWith, testing::ValuesIn(gpu_delta_rule_taus),
                         [](const auto& taus) { return std::string(taus.param.name); });

template <class Real>
class GpuRecurrence : public GpuTest {};
using Types = testing::Types<float, bf16>;
TYPED_TEST_SUITE(GpuRecurrence, Types);

TYPED_TEST(GpuRecurrence, OfALongSequenceEqualsItsParts) {
  const int64_t many = this->gpu().properties().multiprocessors / 4 + 1;  // heads
  for (const int64_t heads : {int64_t(2), many})
    EXPECT_TRUE(equals_its_parts<TypeParam>(long_sequence(heads), 20 * 16, this->gpu()));
}

TYPED_TEST(GpuRecurrence, OfDifferentLengthsEqualsEachAlone) {
  constexpr int32_t lengths[] = {133, 16, 1, 37};
  EXPECT_TRUE(lengths_are_alone<TypeParam>(
      {.batch = 4, .time = 133, .heads = 2, .tau_low = 0.4, .tau_high = 12, .stagger = 0}, lengths,
      this->gpu()));
}

TYPED_TEST(GpuRecurrence, IsDeterministic) {
  EXPECT_TRUE(equals_its_parts<TypeParam>({.batch = 2, .time = 75, .heads = 3, .stagger = 0}, 75,
                                          this->gpu()));
}

}  // namespace
}  // namespace deltasane::kernel::cuda
