// Fewer key heads than heads, and numbers of keys that no kernel is made for.
#include <gtest/gtest.h>

#include <cmath>

#include "base/cat.h"
#include "base/random.h"
#include "kernel/delta_rule/reference.h"
#include "kernel/isa_dispatch.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

struct Sizes {
  Rule rule;
  int64_t time, heads, key_heads, values, keys;
};

template <class Real>
struct Case {
  Sizes n;
  Tensor<Real> r, k, v, w, beta, tau, initial, y, final_state;
  Tensor<Real> dy, dfinal, dr, dk, dv, dw, dbeta, dtau, dinitial;

  explicit Case(const Sizes& sizes) : n(sizes) {
    Random random(3);
    const auto fill = [&](Tensor<Real>& tensor, const Shape& shape, auto number) {
      tensor = Tensor<Real>(shape);
      for (Real& x : tensor.span()) x = Real(float(number()));
    };
    const double size = 1 / std::sqrt(double(n.keys));
    const auto normal = [&] { return random.normal(); };
    const auto small = [&] { return size * random.normal(); };
    fill(r, {1, n.time, n.key_heads, n.keys}, small), fill(k, r.shape(), small);
    fill(v, {1, n.time, n.heads, n.values}, normal);
    // decays down to e^-8 a token
    const auto decay = [&] { return std::exp(-std::pow(random.uniform(0, 2), 3)); };
    if (n.rule == Rule::gated_deltanet) fill(w, {1, n.time, n.heads}, decay);
    if (n.rule == Rule::kda) fill(w, {1, n.time, n.heads, n.keys}, decay);
    fill(beta, {1, n.time, n.heads}, [&] { return random.uniform(0, 2); });
    fill(tau, {1, chunks_ending(5, n.time, 16), n.heads}, [&] { return random.uniform(1, 2); });
    fill(initial, {1, n.heads, n.values, n.keys}, normal);
    y = Tensor<Real>(v.shape()), final_state = Tensor<Real>(initial.shape());
    fill(dy, v.shape(), normal), fill(dfinal, initial.shape(), normal);
    for (const auto& [to, like] : gradients()) {
      *to = Tensor<Real>(like->shape());
      to->fill(Real(NAN));
    }
  }
  // Of each input that the rule has.
  std::vector<std::pair<Tensor<Real>*, Tensor<Real>*>> gradients() {
    std::vector<std::pair<Tensor<Real>*, Tensor<Real>*>> all{
        {&dr, &r}, {&dk, &k}, {&dv, &v}, {&dbeta, &beta}, {&dinitial, &initial}};
    if (w.elements()) all.push_back({&dw, &w});
    if (tau.elements()) all.push_back({&dtau, &tau});
    return all;
  }
  DeltaRuleGradient<Real> gradient() {
    DeltaRuleGradient<Real> all;
    all.dy = dy.view(), all.dfinal = dfinal.view(), all.dr = dr.view(), all.dk = dk.view();
    all.dv = dv.view(), all.dbeta = dbeta.view(), all.dinitial = dinitial.view();
    if (w.elements()) all.dw = dw.view();
    if (tau.elements()) all.dtau = dtau.view();
    return all;
  }
  // Whose gradients these are.
  double loss() {
    reference::delta_rule(op());
    double sum = 0;
    for (int64_t i = 0; i < y.elements(); ++i) sum += double(y[i] * dy[i]);
    for (int64_t i = 0; i < dfinal.elements(); ++i) sum += double(final_state[i] * dfinal[i]);
    return sum;
  }
  DeltaRule<Real> op() {
    DeltaRule<Real> all;
    all.rule = n.rule;
    all.r = r.view(), all.k = k.view(), all.v = v.view(), all.beta = beta.view();
    if (n.rule != Rule::deltanet) all.w = w.view();
    if (tau.elements()) all.tau = tau.view();
    all.position = {&position, {1}};
    all.initial = initial.view(), all.final_state = final_state.view(), all.y = y.view();
    return all;
  }
  static constexpr int64_t position = 5;
};

constexpr Sizes key_head_shapes[] = {{Rule::deltanet, 40, 4, 2, 9, 18},
                            {Rule::gated_deltanet, 40, 6, 2, 36, 18},
                            {Rule::gated_deltanet, 1, 4, 1, 20, 96},
                            {Rule::gated_deltanet, 50, 2, 2, 192, 96},
                            {Rule::kda, 33, 4, 4, 16, 16},
                            {Rule::kda, 33, 6, 3, 24, 40}};

class DeltaRuleKeyHeads : public testing::TestWithParam<Isa> {};

TEST_P(DeltaRuleKeyHeads, AreTheDefinition) {
  if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  ThreadPool threads(2);
  for (const Sizes& n : key_head_shapes) {
    Case<float> found(n), plain(n);
    Case<double> truth(n);
    delta_rule(found.op(), {threads, GetParam()});
    reference::delta_rule(plain.op());
    reference::delta_rule(truth.op());
    const Closeness y = closeness(found.y.span(), plain.y.span(), truth.y.span());
    EXPECT_TRUE(y.close) << name_of(n.rule) << " y is " << y.explanation();
    const Closeness state =
        closeness(found.final_state.span(), plain.final_state.span(), truth.final_state.span());
    EXPECT_TRUE(state.close) << name_of(n.rule) << " state is " << state.explanation();
  }
}

TEST_P(DeltaRuleKeyHeads, GradientsAreTheDefinition) {
  if (!usable(GetParam())) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
  ThreadPool threads(2);
  for (const Sizes& n : key_head_shapes) {
    Case<float> found(n), plain(n);
    Case<double> truth(n);
    delta_rule_backward(found.op(), found.gradient(), {threads, GetParam()});
    reference::delta_rule_backward(plain.op(), plain.gradient());
    reference::delta_rule_backward(truth.op(), truth.gradient());
    for (size_t i = 0; i < truth.gradients().size(); ++i) {
      const Closeness result =
          closeness(found.gradients()[i].first->span(), plain.gradients()[i].first->span(),
                    truth.gradients()[i].first->span());
      EXPECT_TRUE(result.close) << name_of(n.rule) << " gradient " << i << " is "
                                << result.explanation();
    }
  }
}

// Of all inputs of a few tokens that cross a boundary, by central differences, extrapolated. The bound
// is that of docs/numerics.md.
TEST(DeltaRuleGradientOfSharedKeyHeads, IsThatOfTheLoss) {
  for (const Rule rule : {Rule::deltanet, Rule::gated_deltanet, Rule::kda}) {
    Case<double> one({rule, 13, 4, 2, 3, 5});
    reference::delta_rule_backward(one.op(), one.gradient());
    for (const auto& [gradient, input] : one.gradients())
      for (int64_t i = 0; i < input->elements(); ++i) {
        double& x = (*input)[i];
        const double kept = x;
        const auto difference = [&](double h) {
          x = kept + h;
          const double up = one.loss();
          x = kept - h;
          const double down = one.loss();
          x = kept;
          return (up - down) / (2 * h);
        };
        const double whole = difference(1e-3), half = difference(5e-4);
        const double rounding = 8 * 2.3e-16 * (2 * std::abs(one.loss()) + 10) / 5e-4;
        EXPECT_NEAR((*gradient)[i], half + (half - whole) / 3,
                    std::abs(whole - half) / 8 + rounding + 1e-11)
            << name_of(rule) << " " << cat(gradient->shape()) << " " << i;
      }
  }
}

// Heads that share a key head are as if each had a copy of it.
TEST(DeltaRuleSharedKeyHeads, AreSharedByNeighbours) {
  const Sizes few{Rule::gated_deltanet, 40, 6, 2, 9, 16};
  Sizes many = few;
  many.key_heads = 6;
  Case<double> shared(few), copied(many);
  copied.v = shared.v.clone(), copied.w = shared.w.clone(), copied.beta = shared.beta.clone();
  copied.tau = shared.tau.clone(), copied.initial = shared.initial.clone();
  for (int64_t t = 0; t < few.time; ++t)
    for (int64_t h = 0; h < 6; ++h)
      for (int64_t j = 0; j < few.keys; ++j) {
        copied.r.view()(0, t, h, j) = shared.r.view()(0, t, h / 3, j);
        copied.k.view()(0, t, h, j) = shared.k.view()(0, t, h / 3, j);
      }
  reference::delta_rule(shared.op());
  reference::delta_rule(copied.op());
  EXPECT_TRUE(std::ranges::equal(shared.y.span(), copied.y.span()));
}

TEST(DeltaRuleSharedKeyHeads, WrongOnesAreNamed) {
  ThreadPool threads(1);
  Case<float> odd({Rule::kda, 3, 5, 2, 4, 16});
  EXPECT_FAULT(delta_rule(odd.op(), {threads}), Fault::argument,
               "v: expected a multiple of 2 heads, found 5");
  Case<float> wide({Rule::kda, 3, 2, 2, 4, 300});
  EXPECT_FAULT(delta_rule(wide.op(), {threads}), Fault::argument, "expected at most 256, found 300");
}

INSTANTIATE_TEST_SUITE_P(Isas, DeltaRuleKeyHeads, testing::ValuesIn(float_isas),
                         [](const auto& isa) { return std::string(name_of(isa.param)); });

}  // namespace
}  // namespace deltasane::kernel
