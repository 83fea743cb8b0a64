#include "kernel/matmul/gradient.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/random.h"
#include "kernel/isa_dispatch.h"
#include "support/errors.h"
#include "tensor/closeness.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

enum class Kind { nn, tn };

Tensor<float> random_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  Tensor<float> matrix({rows, columns});
  Random random(seed);
  for (float& x : matrix.span()) x = float(random.normal());
  return matrix;
}

template <class Real>
std::vector<Real> plainly(Kind kind, View<const float> a, View<const float> b, View<const float> c,
                          Store store) {
  std::vector<Real> out;
  for (int64_t i = 0; i < c.shape[0]; ++i)
    for (int64_t j = 0; j < c.shape[1]; ++j) {
      Real sum = 0;
      for (int64_t k = 0; k < b.shape[0]; ++k)
        sum += Real(kind == Kind::nn ? a(i, k) : a(k, i)) * Real(b(k, j));
      out.push_back(store == Store::add ? Real(c(i, j)) + sum : sum);
    }
  return out;
}

class MatmulGradient : public testing::TestWithParam<Kind> {
 protected:
  void run(View<const float> a, View<const float> b, View<float> c, const Cpu& cpu, Store store) {
    (GetParam() == Kind::nn ? matmul_nn : matmul_tn)(a, b, c, cpu, store);
  }
  Tensor<float> a_of(int64_t m, int64_t k) {
    return GetParam() == Kind::nn ? random_matrix(m, k, 1) : random_matrix(k, m, 1);
  }
};

TEST_P(MatmulGradient, IsAsCloseToTheTruthAsPlainArithmetic) {
  ThreadPool threads(2);
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& size :
       {Size{1, 1, 1}, {3, 5, 7}, {8, 12, 16}, {65, 49, 33}, {17, 97, 600}, {1030, 3, 5}})
    for (const Store store : {Store::overwrite, Store::add})
      for (const Isa isa : built_isas) {
        if (!usable(isa)) continue;
        const Tensor<float> a = a_of(size.m, size.k), b = random_matrix(size.k, size.n, 2);
        Tensor<float> c = random_matrix(size.m, size.n, 3);
        if (store == Store::overwrite) c.fill(std::numeric_limits<float>::quiet_NaN());
        const auto truth = plainly<double>(GetParam(), a.view(), b.view(), c.view(), store);
        const auto plain = plainly<float>(GetParam(), a.view(), b.view(), c.view(), store);
        run(a.view(), b.view(), c.view(), {threads, isa}, store);
        const Closeness result = closeness(c.span(), plain, truth);
        EXPECT_TRUE(result.close) << name_of(isa) << " " << size.m << " " << size.n << " " << size.k
                                  << ": " << result.explanation();
      }
}

TEST_P(MatmulGradient, DoesNotDependOnTheNumberOfThreads) {
  const Tensor<float> a = a_of(150, 600), b = random_matrix(600, 70, 2);
  std::vector<Tensor<float>> results;
  for (const int count : {1, 2, 5}) {
    ThreadPool threads(count);
    results.emplace_back(Shape{150, 70});
    run(a.view(), b.view(), results.back().view(), {threads}, Store::overwrite);
  }
  for (const Tensor<float>& c : results)
    EXPECT_EQ(std::memcmp(c.data(), results[0].data(), 150 * 70 * 4), 0);
}

TEST_P(MatmulGradient, RefusesShapesThatDoNotAgree) {
  ThreadPool threads(1);
  const Tensor<float> a = a_of(4, 6), b = random_matrix(5, 3, 2);
  Tensor<float> c({4, 3});
  EXPECT_FAULT(run(a.view(), b.view(), c.view(), {threads}, Store::add), Fault::argument,
               "b: expected shape (6, 3), found (5, 3)");
}

INSTANTIATE_TEST_SUITE_P(Kinds, MatmulGradient, testing::Values(Kind::nn, Kind::tn),
                         [](const auto& kind) { return kind.param == Kind::nn ? "nn" : "tn"; });

}  // namespace
}  // namespace deltasane::kernel
