// Bad input: one error that names the argument, what was expected and what was found.
#include <gtest/gtest.h>

#include <limits>

#include "kernel/delta_rule/bench/problem.h"
#include "kernel/isa_dispatch.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

struct DeltaRuleErrors : testing::Test {
  ThreadPool threads{1};
  Problem<float> p{{.batch = 2, .time = 20, .heads = 3}, 1};
  DeltaRule<float> op = p.op();
  DeltaRuleGradient<float> gradient = p.gradient();
  void run() { delta_rule(op, {threads}); }
  void run_backward() { delta_rule_backward(op, gradient, {threads}); }
};

TEST_F(DeltaRuleErrors, WrongShapes) {
  op.v = op.v.slice(1, 0, 19);
  EXPECT_FAULT(run(), Fault::argument, "v: expected shape (2, 20, 3, 64), found (2, 19, 3, 64)");
  op.v = p.v.view();
  op.tau = op.tau.slice(2, 0, 2);
  EXPECT_FAULT(run(), Fault::argument, "tau: expected shape (2, 1, 3), found (2, 1, 2)");
  op.tau = p.tau.view();
  gradient.dw = gradient.dw.slice(0, 0, 1);
  EXPECT_FAULT(run_backward(), Fault::argument, "dw: expected shape (2, 20, 3, 64)");
}

TEST_F(DeltaRuleErrors, MissingAndSuperfluousArguments) {
  op.b = {};
  EXPECT_FAULT(run(), Fault::argument, "b: expected shape (2, 20, 3, 64), found no tensor");
  op.rule = Rule::kda;
  EXPECT_FAULT(run(), Fault::argument, "a: expected none for the rule kda, found (2, 20, 3, 64)");
}

TEST_F(DeltaRuleErrors, NoTokens) {
  for (View<const float>* view : {&op.r, &op.w, &op.k, &op.v, &op.a, &op.b})
    *view = view->slice(1, 0, 0);
  EXPECT_FAULT(run(), Fault::argument, "of at least 1 each, found (2, 0, 3, 64)");
}

TEST_F(DeltaRuleErrors, AHeadSizeWithoutAKernel) {
  Problem<float> odd({.time = 3, .values = 48, .keys = 300}, 1);
  EXPECT_FAULT(delta_rule(odd.op(), {threads}), Fault::argument,
               "k: key channels per head: expected at most 256, found 300");
}

TEST_F(DeltaRuleErrors, TauThatIsNotPositiveOrNotFinite) {
  p.tau[4] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(run(), Fault::argument, "tau(1, 0, 1): expected a finite number above 0, found nan");
  p.tau[4] = 0;
  EXPECT_FAULT(run(), Fault::argument, "tau(1, 0, 1): expected a finite number above 0, found 0");
  p.tau[4] = -1.5f;
  EXPECT_FAULT(run_backward(), Fault::argument, "found -1.5");
  p.tau[4] = std::numeric_limits<float>::infinity();
  EXPECT_FAULT(run(), Fault::argument, "found inf");
}

TEST_F(DeltaRuleErrors, MasksPositionsAndChunks) {
  Tensor<uint8_t> present({2, 20});
  present.fill(2);
  op.present = present.view();
  EXPECT_FAULT(run(), Fault::argument, "present(0, 0): expected 0 or 1, found 2");
  op.present = {};
  p.later_position[1] = -1;
  EXPECT_FAULT(run(), Fault::argument, "position(1): expected 0 or more, found -1");
  p.later_position[1] = 5;
  op.chunk = 0;
  EXPECT_FAULT(run(), Fault::argument, "chunk: expected at least 1, found 0");
}

TEST_F(DeltaRuleErrors, ChannelsThatAreNotContiguous) {
  op.k.stride[3] = 2;
  EXPECT_FAULT(run(), Fault::argument, "k: expected contiguous channels, found a stride of 2");
}

TEST_F(DeltaRuleErrors, AnInstructionSetThisProcessorLacks) {
  for (const Isa isa : {Isa::neon, Isa::neon_mm, Isa::avx2, Isa::avx512})
    if (!usable(isa)) EXPECT_FAULT(delta_rule(op, {threads, isa}), Fault::device, name_of(isa));
}

}  // namespace
}  // namespace deltasane::kernel
