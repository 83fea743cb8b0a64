// What must hold for every backend, whatever the numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernel/delta_rule/bench/check.h"
#include "kernel/delta_rule/reference.h"
#include "kernel/isa_dispatch.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

class DeltaRuleLaw : public testing::TestWithParam<Isa> {
 protected:
  ThreadPool threads_{2};
  Cpu cpu() { return {threads_, GetParam()}; }
  void SetUp() override {
    if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  }
};

template <class T>
bool same_bits(const Tensor<T>& a, const Tensor<T>& b) {
  return a.elements() == b.elements() &&
         (a.elements() == 0 ||
          std::memcmp(a.data(), b.data(), size_t(a.elements()) * sizeof(T)) == 0);
}

// The problem in pieces of the given lengths, the state updated in place.
void in_pieces(Problem<float>& p, const std::vector<int64_t>& lengths, const Cpu& cpu) {
  View<const float> state = p.initial.view();
  int64_t from = 0;
  for (const int64_t length : lengths) {
    delta_rule(p.op(from, length, state), cpu);
    state = p.final_state.view();
    from += length;
  }
  ASSERT_EQ(from, p.shape.time);
}

constexpr ProblemShape stream{.time = 96, .heads = 2, .position = 32};

TEST_P(DeltaRuleLaw, PiecesCutAtChunkBoundariesEqualTheWholeBitForBit) {
  Problem<float> whole(stream, 1), pieces = whole.in<float>();
  delta_rule(whole.op(), cpu());
  in_pieces(pieces, {16, 48, 32}, cpu());
  EXPECT_TRUE(same_bits(whole.y, pieces.y));
  EXPECT_TRUE(same_bits(whole.final_state, pieces.final_state));
}

void expect_close_to_the_definition(Problem<float>& found) {
  Problem<float> plain = found.in<float>();
  Problem<double> truth = found.in<double>();
  reference::delta_rule(plain.op());
  reference::delta_rule(truth.op());
  const Closeness y = closeness(found.y.span(), plain.y.span(), truth.y.span());
  const Closeness state =
      closeness(found.final_state.span(), plain.final_state.span(), truth.final_state.span());
  EXPECT_TRUE(y.close) << "y " << y.explanation();
  EXPECT_TRUE(state.close) << "state " << state.explanation();
}

TEST_P(DeltaRuleLaw, PiecesCutAnywhereAgreeWithTheDefinitionOfTheWhole) {
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1, 95}, {95, 1}, {7, 13, 40, 36}, {33, 63}, {15, 2, 79}}) {
    Problem<float> p(stream, 2);
    in_pieces(p, lengths, cpu());
    expect_close_to_the_definition(p);
  }
}

TEST_P(DeltaRuleLaw, SingleStepsAgreeWithTheDefinitionOfTheWhole) {
  Problem<float> p(stream, 3);
  in_pieces(p, std::vector<int64_t>(96, 1), cpu());
  expect_close_to_the_definition(p);
}

TEST_P(DeltaRuleLaw, StatesAreBoundedByTauAtABoundary) {
  for (const double scale : {0.1, 3.0, 1000.0, 1e30}) {
    ProblemShape shape{.time = 16, .heads = 3, .state_scale = scale};
    Problem<float> p(shape, 4);
    delta_rule(p.op(), cpu());
    for (int64_t h = 0; h < 3; ++h) {
      const float tau = p.tau[h];
      double squares = 0;
      for (int64_t i = 0; i < 64 * 64; ++i) {
        const float s = p.final_state[h * 64 * 64 + i];
        EXPECT_LE(std::abs(s), tau);
        squares += double(s) * s;
      }
      EXPECT_LE(std::sqrt(squares), 64.0 * tau);
    }
  }
}

TEST_P(DeltaRuleLaw, AHugeTauIsAsWithoutSane) {
  ProblemShape shape = stream;
  shape.tau_low = 1e6, shape.tau_high = 1e8;
  Problem<float> p(shape, 5);
  delta_rule(p.op(), cpu());
  p.tau = {};  // the same inputs, without SANE
  p.shape.tau_low = p.shape.tau_high = 0;
  expect_close_to_the_definition(p);
}

TEST_P(DeltaRuleLaw, ResultsDoNotDependOnThreadsBitForBit) {
  // 2 heads: rows are split over threads; 9: heads are
  for (const int64_t heads : {2, 9}) {
    ProblemShape shape{.batch = 1, .time = 45, .heads = heads, .values = 60, .position = 3};
    Problem<float> one(shape, 6);
    // 16 small rows, 16 large ones: tanh has an approximation for each.
    const auto scale_of = [](int64_t row) { return row / 16 % 2 ? 10.0f : 0.01f; };
    for (int64_t i = 0; i < one.v.elements(); ++i) one.v[i] *= scale_of(i % shape.values);
    for (int64_t i = 0; i < one.initial.elements(); ++i)
      one.initial[i] *= scale_of(i / shape.keys % shape.values);
    ThreadPool alone(1);
    delta_rule(one.op(), {alone, GetParam()});
    delta_rule_backward(one.op(), one.gradient(), {alone, GetParam()});
    for (const int count : {2, 3, 7}) {
      Problem<float> many = one.in<float>();
      ThreadPool threads(count);
      delta_rule(many.op(), {threads, GetParam()});
      delta_rule_backward(many.op(), many.gradient(), {threads, GetParam()});
      const auto expected = one.outputs(), found = many.outputs();
      for (size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(same_bits(*expected[i].second, *found[i].second))
            << expected[i].first << " with " << count << " threads, " << heads << " heads";
    }
  }
}

// Tiny decays at every token, and at tokens 11, 22 and 33 only: in the middle of a run.
TEST_P(DeltaRuleLaw, DecaysMayBeTinyOrZero) {
  for (const int64_t apart : {97, 11 * 2 * 64 + 1})
    for (const float smallest : {0.0f, 1e-30f, 1e-3f}) {
      Problem<float> p({.time = 40, .heads = 2}, 8);
      for (int64_t i = apart - 1; i < p.w.elements(); i += apart) p.w[i] = smallest;
      delta_rule(p.op(), cpu());
      delta_rule_backward(p.op(), p.gradient(), cpu());
      expect_close_to_the_definition(p);
      Problem<float> plain = p.in<float>();
      Problem<double> truth = p.in<double>();
      reference::delta_rule_backward(plain.op(), plain.gradient());
      reference::delta_rule_backward(truth.op(), truth.gradient());
      const Closeness dw = closeness(p.dw.span(), plain.dw.span(), truth.dw.span());
      const Closeness dk = closeness(p.dk.span(), plain.dk.span(), truth.dk.span());
      const Closeness di =
          closeness(p.dinitial.span(), plain.dinitial.span(), truth.dinitial.span());
      EXPECT_TRUE(dw.close && dk.close && di.close)
          << dw.explanation() << "; " << dk.explanation() << "; " << di.explanation();
    }
}

TEST_P(DeltaRuleLaw, NaNsPropagate) {
  Problem<float> p({.time = 32, .heads = 2}, 9);
  p.initial[5] = std::nanf("");
  delta_rule(p.op(), cpu());
  EXPECT_TRUE(std::isnan(p.final_state[5]));
}

// |u| from 1e-8 to 1e8 through one neutralization of a state that nothing else changes.
TEST_P(DeltaRuleLaw, TanhHasTheStatedError) {
  double worst_small = 0, worst_any = 0;
  for (int sweep = 0; sweep < 64; ++sweep) {
    Problem<float> p({.time = 1, .values = 64, .position = 15}, 10);
    p.v.fill(0), p.b.fill(0), p.w.fill(1);
    p.tau.fill(2.5f);
    for (int64_t i = 0; i < 64 * 64; ++i) {
      const double exponent = -8 + 16 * double(sweep * 4096 + i) / (64 * 4096);
      p.initial[i] = float((i % 2 ? -2.5 : 2.5) * std::pow(10, exponent));
    }
    delta_rule(p.op(), cpu());
    for (int64_t i = 0; i < 64 * 64; ++i) {
      const double truth = 2.5 * std::tanh(double(p.initial[i]) / 2.5);
      const double relative = std::abs(double(p.final_state[i]) / truth - 1);
      double& worst = std::abs(p.initial[i]) < 1.0f ? worst_small : worst_any;
      worst = std::max(worst, relative);
    }
  }
  RecordProperty("small", cat(worst_small));
  RecordProperty("any", cat(worst_any));
  EXPECT_LT(worst_small, 1.5e-7);  // docs/numerics.md
  EXPECT_LT(worst_any, 4e-7);
}

INSTANTIATE_TEST_SUITE_P(Isas, DeltaRuleLaw, testing::ValuesIn(float_isas),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

}  // namespace
}  // namespace deltasane::kernel
