// The operator on a GPU against the definition, by the rule of tensor/closeness.h.
#include "kernel/delta_rule/cuda.h"

#include <gtest/gtest.h>

#include "kernel/delta_rule/cuda_check.h"
#include "kernel/gpu_test_case.h"

namespace deltasane::kernel::cuda {
namespace {

// By ranges of tau, so that a tool that takes long can be given one.
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

// Kernels that walk over tiles come to the end of whatever they have for some of them.
TYPED_TEST(GpuRecurrence, OfALongSequenceIsThatOfItsParts) {
  const int64_t many = this->gpu().facts().multiprocessors / 4 + 1;  // heads
  for (const int64_t heads : {int64_t(2), many})
    EXPECT_TRUE(is_its_parts<TypeParam>(
        {.time = 150 * 16 + 5, .heads = heads, .tau_low = 0.4, .tau_high = 12, .stagger = 0},
        20 * 16, this->gpu()));
}

TYPED_TEST(GpuRecurrence, IsTheSameEveryTime) {
  const Gpu& gpu = this->gpu();
  const Problem<float> problem({.batch = 2, .time = 75, .heads = 3}, 5);
  const auto upload = [&](const Tensor<float>& host) {
    Tensor<TypeParam> converted(host.shape());
    for (int64_t i = 0; i < host.elements(); ++i) converted[i] = TypeParam(host[i]);
    return GpuTensor<TypeParam>(gpu, converted, "a test");
  };
  const auto r = upload(problem.r), k = upload(problem.k), v = upload(problem.v);
  const auto a = upload(problem.a), b = upload(problem.b);
  const GpuTensor<float> w(gpu, problem.w, "a test"), tau(gpu, problem.tau, "a test");
  std::vector<Tensor<TypeParam>> results;
  for (int i = 0; i < 2; ++i) {
    GpuTensor<TypeParam> y(gpu, problem.y.shape(), "a test");
    DeltaRule<TypeParam> op;
    op.batch = 2, op.time = 75, op.heads = 3;
    op.r = r.data(), op.k = k.data(), op.v = v.data(), op.a = a.data(), op.b = b.data();
    op.w = w.data(), op.tau = tau.data(), op.y = y.data();
    DeltaRuleScratch scratch;
    delta_rule(op, scratch, gpu);
    results.push_back(y.on_host(gpu));
  }
  EXPECT_EQ(0, std::memcmp(results[0].data(), results[1].data(),
                           size_t(results[0].elements()) * sizeof(TypeParam)));
}

}  // namespace
}  // namespace deltasane::kernel::cuda
