// Fewer key heads than heads, and numbers of keys that no kernel is made for.
#include <gtest/gtest.h>

#include <cmath>

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
