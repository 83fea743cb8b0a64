#include "kernel/rope/rope.h"

#include "kernel/rope/reference.h"
#include "kernel/rows/row_test_case.h"
#include "support/errors.h"

namespace deltasane::kernel {
namespace {

using namespace row_test;

struct RopeOf : testing::Test {
  ThreadPool threads{2};
  Cpu cpu{threads};
};

TEST_F(RopeOf, HeadsIsTheDefinition) {
  const int64_t time = 5, heads = 3, size = 12;
  for (const int64_t rotary : {0, 2, 6, 12})
    for (const int64_t position : {0, 7, 100'000}) {
      Vector<double> truth = normal_numbers(time * heads * size, 1, 1);
      Vector<float> plain = as<float>(truth), found = plain;
      rope({{found.data(), {time, heads, size}}, position, rotary, 1e4}, cpu);
      for (size_t i = 0; i < size_t(time * heads); ++i) {
        const size_t at = i * size_t(size);
        const int64_t p = position + int64_t(i) / heads;
        reference::rope<float>(std::span(plain).subspan(at, size_t(size)), p, rotary, 1e4);
        reference::rope<double>(std::span(truth).subspan(at, size_t(size)), p, rotary, 1e4);
      }
      expect_close("rope", found, plain, truth);
    }
}

// What it is for: products depend on the distance of two positions alone.
TEST_F(RopeOf, TwoPositionsMeetByTheirDistance) {
  const Vector<double> q = normal_numbers(8, 1, 1), k = normal_numbers(8, 1, 2);
  const auto product = [&](int64_t p, int64_t s) {
    Vector<double> a = q, b = k;
    reference::rope<double>(a, p, 6, 1e4), reference::rope<double>(b, s, 6, 1e4);
    return dot(a, b);
  };
  EXPECT_NEAR(product(11, 4), product(1011, 1004), 1e-11);
  EXPECT_GT(std::abs(product(11, 4) - product(4, 11)), 1e-3);
}

// <rope(x), d> = <x, rope_backward(d)>, element by element: the columns of the definition.
TEST_F(RopeOf, GradientIsThatOfTheDefinition) {
  const int64_t time = 3, heads = 2, size = 6, rotary = 4, position = 11;
  const Vector<double> dd = normal_numbers(time * heads * size, 1, 2);
  Vector<float> found = as<float>(dd), plain(found.size());
  rope_backward({{found.data(), {time, heads, size}}, position, rotary, 1e4}, cpu);
  Vector<double> truth(dd.size());
  const auto define = [&]<class Real>(Vector<Real>& to) {
    for (size_t i = 0; i < to.size(); ++i) {
      Vector<Real> one(size_t(size), Real(0));
      one[i % size_t(size)] = 1;
      const size_t at = i / size_t(size);
      reference::rope<Real>(one, position + int64_t(at) / heads, rotary, 1e4);
      for (size_t c = 0; c < size_t(size); ++c)
        to[i] += one[c] * Real(dd[at * size_t(size) + c]);
    }
  };
  define.operator()<float>(plain), define.operator()<double>(truth);
  expect_close("rope_backward", found, plain, truth);
}

TEST_F(RopeOf, OddNumbersAreNamed) {
  Vector<float> x(12);
  EXPECT_FAULT(rope({{x.data(), {1, 2, 6}}, 0, 3, 1e4}, cpu), Fault::argument,
               "rotary: expected an even number up to 6, found 3");
}

}  // namespace
}  // namespace deltasane::kernel
