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

TEST_F(ExpertsOf, GradientOfTheChoiceIsThatOfTheLoss) {
  for (const auto score : {RouterScore::softmax, RouterScore::sigmoid})
    for (const bool renormalize : {false, true}) {
      const Router router{score, 2, renormalize, 2.5f};
      Vector<double> logits{1, 3, 2, -1};
      const Vector<double> dweight{0.7, -1.3};
      std::vector<Choice> chosen(2);
      reference::route<double>(router, logits, chosen);
      Vector<double> dlogits(4);
      reference::route_backward<double>(router, logits, chosen, dweight, dlogits);
      expect_gradient("logits", logits, dlogits, [&] {
        const Vector<double> s = reference::router_scores<double>(score, logits);
        const double total = reference::router_total<double>(router, s, chosen);
        double loss = 0;
        for (size_t i = 0; i < 2; ++i)
          loss += dweight[i] * 2.5 * s[size_t(chosen[i].expert)] / total;
        return loss;
      });
      const Vector<float> rounded = as<float>(logits), dw = as<float>(dweight);
      Vector<float> found(4, NAN), plain(4);
      reference::route_backward<float>(router, rounded, chosen, dw, plain);
      route_backward(router, {{rounded.data(), {1, 4}}, chosen, dw, {found.data(), {1, 4}}}, cpu);
      expect_close("dlogits", found, plain, dlogits);
    }
}

// A mixture whose experts are written out, in float or double.
template <class Real>
struct Mixture {
  int64_t rows = 17, channels = 24, width = 12, count = 5, used = 2;
  Vector<Real> x, gate, up, down, dy;
  std::vector<Choice> chosen;
  Vector<Real> weight, dx, dgate, dup, ddown, dweight;

  Mixture() {
    const auto draw = [](int64_t n, double scale, uint64_t stream) {
      return as<Real>(normal_numbers(n, scale, stream));
    };
    x = draw(rows * channels, 1, 1), dy = draw(rows * channels, 1, 3);
    gate = draw(count * width * channels, 0.3, 10), up = draw(count * width * channels, 0.3, 11);
    down = draw(count * channels * width, 0.3, 12);
    const Vector<float> logits = as<float>(normal_numbers(rows * count, 1, 2));
    chosen.resize(size_t(rows * used));
    for (int64_t r = 0; r < rows; ++r)
      reference::route<float>({.used = used}, std::span(logits).subspan(size_t(r * count), 5),
                              std::span(chosen).subspan(size_t(r * used), 2));
    for (const Choice& one : chosen) weight.push_back(Real(one.weight));
    dx.assign(x.size(), 0), dgate.assign(gate.size(), 0), dup.assign(up.size(), 0);
    ddown.assign(down.size(), 0), dweight.assign(chosen.size(), 0);
  }
  // The loss, sum(y dy), and all gradients.
  Real define() {
    Real loss = 0;
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto row = int64_t(i) / used * channels, e = int64_t(chosen[i].expert);
      const auto at = [](auto& all, int64_t index) -> auto& { return all[size_t(index)]; };
      for (int64_t j = 0; j < width; ++j) {
        const int64_t in = (e * width + j) * channels;
        Real g = 0, u = 0, dh = 0;
        for (int64_t c = 0; c < channels; ++c) {
          g += at(gate, in + c) * at(x, row + c), u += at(up, in + c) * at(x, row + c);
          dh += at(down, (e * channels + c) * width + j) * at(dy, row + c);
        }
        const Real act = reference::gate_of(GateActivation::silu, g), h = act * u;
        dweight[i] += dh * h, loss += weight[i] * dh * h;
        const Real dg = weight[i] * dh * u * reference::gate_derivative(GateActivation::silu, g);
        const Real du = weight[i] * dh * act;
        for (int64_t c = 0; c < channels; ++c) {
          at(ddown, (e * channels + c) * width + j) += weight[i] * at(dy, row + c) * h;
          at(dgate, in + c) += dg * at(x, row + c), at(dup, in + c) += du * at(x, row + c);
          at(dx, row + c) += dg * at(gate, in + c) + du * at(up, in + c);
        }
      }
    }
    return loss;
  }
};

TEST_F(ExpertsOf, GradientsAreTheDefinition) {
  Mixture<float> plain, found;
  Mixture<double> truth;
  plain.define(), truth.define();
  std::vector<Weights> gate, up, down;
  for (int64_t e = 0; e < found.count; ++e) {
    const int64_t at = e * found.width * found.channels;
    gate.push_back(Weights::view(WeightType::f32, found.gate.data() + at, found.width, found.channels));
    up.push_back(Weights::view(WeightType::f32, found.up.data() + at, found.width, found.channels));
    down.push_back(Weights::view(WeightType::f32, found.down.data() + at, found.channels, found.width));
  }
  const Shape rows{found.rows, found.channels}, into{found.count, found.width, found.channels};
  found.dweight.assign(found.dweight.size(), NAN);
  add_experts_backward({{found.x.data(), rows}, found.chosen, gate, up, down, {}},
                       {{found.dy.data(), rows},
                        {found.dx.data(), rows},
                        found.dweight,
                        {found.dgate.data(), into},
                        {found.dup.data(), into},
                        {found.ddown.data(), {found.count, found.channels, found.width}}},
                       cpu);
  expect_close("dx", found.dx, plain.dx, truth.dx);
  expect_close("dweight", found.dweight, plain.dweight, truth.dweight);
  expect_close("dgate", found.dgate, plain.dgate, truth.dgate);
  expect_close("dup", found.dup, plain.dup, truth.dup);
  expect_close("ddown", found.ddown, plain.ddown, truth.ddown);
}

TEST_F(ExpertsOf, DefinitionOfTheGradientsIsThatOfTheLoss) {
  Mixture<double> one;
  one.define();
  const auto some = [&](Vector<double> Mixture<double>::*input, const Vector<double>& gradient) {
    for (const size_t i : {size_t(0), size_t(101), size_t(33)}) {
      const auto difference = [&](double h) {
        Mixture<double> up = one, down = one;
        (up.*input)[i % gradient.size()] += h, (down.*input)[i % gradient.size()] -= h;
        return (up.define() - down.define()) / (2 * h);
      };
      const double whole = difference(1e-3), half = difference(5e-4);
      EXPECT_NEAR(gradient[i % gradient.size()], half + (half - whole) / 3,
                  std::abs(whole - half) / 8 + 1e-9);
    }
  };
  some(&Mixture<double>::x, one.dx), some(&Mixture<double>::gate, one.dgate);
  some(&Mixture<double>::up, one.dup), some(&Mixture<double>::down, one.ddown);
  some(&Mixture<double>::weight, one.dweight);
}

TEST_F(ExpertsOf, TooManyAreNamed) {
  const Vector<float> logits(6);
  std::vector<Choice> chosen(8);
  EXPECT_FAULT(route({.used = 4}, {logits.data(), {2, 3}}, chosen, cpu), Fault::argument,
               "used: expected 1 to 3 experts, found 4");
}

}  // namespace
}  // namespace deltasane::kernel
