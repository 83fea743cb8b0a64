#include "kernel/experts/experts.h"

#include "kernel/experts/reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

struct ExpertsOf : testing::Test {
  ThreadPool threads{2};
  Cpu cpu{threads};
};

TEST_F(ExpertsOf, ChoiceIsTheDefinition) {
  const Vector<float> bias{0, 0, 0.5f, 0};
  const Vector<double> logits{1, 3, 2, 3};
  std::vector<Choice> chosen(2);
  reference::route<double>({.used = 2}, logits, chosen);  // equal ones: the lower number first
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 3);
  EXPECT_EQ(chosen[0].weight, 0.5f);
  reference::route<double>({.used = 2, .renormalize = false, .scale = 2}, logits, chosen);
  const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(2);
  EXPECT_FLOAT_EQ(chosen[1].weight, float(2 * std::exp(3) / sum));
  const Router sigmoid{RouterScore::sigmoid, 2, true, 3, bias.data()};
  reference::route<double>(sigmoid, logits, chosen);  // the bias chooses, and does not weigh
  EXPECT_EQ(chosen[0].expert, 2);
  EXPECT_EQ(chosen[1].expert, 1);
  const double s2 = 1 / (1 + std::exp(-2)), s1 = 1 / (1 + std::exp(-3));
  EXPECT_FLOAT_EQ(chosen[0].weight, float(3 * s2 / (s1 + s2)));
}

TEST_F(ExpertsOf, SumIsTheDefinition) {
  const int64_t rows = 17, channels = 24, width = 12, count = 5, used = 2;
  const Vector<double> xd = normal_numbers(rows * channels, 1, 1),
                       logits_d = normal_numbers(rows * count, 1, 2);
  const Vector<float> x = as<float>(xd), logits = as<float>(logits_d);
  std::vector<Vector<double>> matrices;
  std::vector<Weights> gate, up, down;
  for (int64_t e = 0; e < count; ++e)
    for (std::vector<Weights>* const to : {&gate, &up, &down}) {
      const bool is_down = to == &down;
      matrices.push_back(normal_numbers(width * channels, 0.3, 10 + matrices.size()));
      to->push_back(Weights::copied(WeightType::f32, as<float>(matrices.back()),
                                    is_down ? channels : width, is_down ? width : channels));
    }
  std::vector<Choice> chosen(size_t(rows * used));
  route({.used = used}, {logits.data(), {rows, count}}, chosen, cpu);
  Vector<float> found(x.size(), 1.0f), plain = found;
  add_experts({{x.data(), {rows, channels}}, chosen, gate, up, down,
               {found.data(), {rows, channels}}},
              cpu);
  Vector<double> truth(x.size(), 1.0);
  const auto define = [&]<class Real>(const Vector<Real>& input, Vector<Real>& y) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Real* const from = input.data() + i / size_t(used) * size_t(channels);
      const auto matrix = [&](size_t which, int64_t out, int64_t in) {
        return Real(matrices[size_t(chosen[i].expert) * 3 + which][size_t(
            out * (which == 2 ? width : channels) + in)]);
      };
      for (int64_t out = 0; out < channels; ++out) {
        Real sum = 0;
        for (int64_t j = 0; j < width; ++j) {
          Real g = 0, u = 0;
          for (int64_t c = 0; c < channels; ++c)
            g += matrix(0, j, c) * from[c], u += matrix(1, j, c) * from[c];
          sum += matrix(2, out, j) * (reference::gate_of(GateActivation::silu, g) * u);
        }
        y[i / size_t(used) * size_t(channels) + size_t(out)] += Real(chosen[i].weight) * sum;
      }
    }
  };
  define(x, plain), define(xd, truth);
  expect_close("experts", found, plain, truth);
}

TEST_F(ExpertsOf, TooManyAreNamed) {
  const Vector<float> logits(6);
  std::vector<Choice> chosen(8);
  EXPECT_FAULT(route({.used = 4}, {logits.data(), {2, 3}}, chosen, cpu), Fault::argument,
               "used: expected 1 to 3 experts, found 4");
}

}  // namespace
}  // namespace deltasane::kernel
