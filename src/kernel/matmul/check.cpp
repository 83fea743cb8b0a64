#include "kernel/matmul/check.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "kernel/matmul/reference.h"
#include "tensor/closeness.h"

namespace deltasane::kernel {
namespace {

Tensor<float> random_tensor(const Shape& shape, uint64_t seed, double scale) {
  Tensor<float> tensor(shape);
  Random stream(seed);
  for (float& x : tensor.span()) x = float(scale * stream.normal());
  return tensor;
}

template <class T>
void append(std::vector<T>& all, const Tensor<T>& tensor) {
  all.insert(all.end(), tensor.span().begin(), tensor.span().end());
}

// The definition in double and in float, of one problem after the other.
struct Yardstick {
  std::vector<double> truth;
  std::vector<float> plain;

  void add(const MatmulProblem& problem, View<const float> x) {
    const Store store = problem.shape.store;
    Tensor<double> exact({problem.shape.tokens, problem.shape.out});
    for (int64_t e = 0; e < exact.elements(); ++e) exact[e] = problem.y[e];
    reference::matmul<double>(problem.weights, x, exact.view(), store);
    append(truth, exact);
    Tensor<float> y = problem.y.clone();
    reference::matmul<float>(problem.weights, x, y.view(), store);
    append(plain, y);
  }
};

}  // namespace

MatmulProblem::MatmulProblem(const MatmulShape& sizes, uint64_t seed)
    : shape(sizes),
      weights(Weights::copied(sizes.type,
                              random_tensor({sizes.out, sizes.in}, 3 * seed, 0.1).span(), sizes.out,
                              sizes.in)),
      x(random_tensor({sizes.tokens, sizes.in}, 3 * seed + 1, 1.0)),
      y(random_tensor({sizes.tokens, sizes.out}, 3 * seed + 2, 1.0)) {
  if (shape.store == Store::overwrite) y.fill(std::numeric_limits<float>::quiet_NaN());
}

std::vector<std::string> check_matmul(const MatmulShape& shape, uint64_t seed, ThreadPool& threads,
                                      std::span<const Isa> isas) {
  // Four problems are compared together, so that the yardstick, the worst error of plain
  // arithmetic, is the worst of many numbers even for small outputs.
  Yardstick exact, in_pairs;  // for x as given, as sums of bf16 pairs
  std::vector<std::vector<float>> found(isas.size());
  const auto pairs = [&](Isa isa) { return multiplies_bf16_pairs(shape.type, shape.tokens, isa); };
  for (uint64_t i = 0; i < 4; ++i) {
    const MatmulProblem problem(shape, seed * 1000 + i);
    exact.add(problem, problem.x.view());
    if (std::ranges::any_of(isas, pairs))
      in_pairs.add(problem, reference::bf16_pairs(problem.x.view()).view());
    for (size_t which = 0; which < isas.size(); ++which) {
      Tensor<float> y = problem.y.clone();
      matmul(problem.weights, problem.x.view(), y.view(), {threads, isas[which]}, shape.store);
      append(found[which], y);
    }
  }
  std::vector<std::string> wrong;
  for (size_t which = 0; which < isas.size(); ++which) {
    const Yardstick& yardstick = pairs(isas[which]) ? in_pairs : exact;
    const Closeness result = closeness(found[which], yardstick.plain, yardstick.truth);
    if (!result.close)
      wrong.push_back(cat(name_of(shape.type), " on ", name_of(isas[which]), ", ", shape.tokens,
                          " tokens, (", shape.out, ", ", shape.in, "): y is ",
                          result.explanation()));
  }
  return wrong;
}

std::vector<MatmulShape> matmul_cases(WeightType type) {
  std::vector<MatmulShape> cases;
  for (const int64_t tokens : {1, 2, 3, 4, 7, 8, 12, 13, 64, 65})
    for (const auto& [out, in] : {std::pair<int64_t, int64_t>{1, 1},
                                  {5, 3},
                                  {12, 16},
                                  {49, 33},
                                  {31, 64},
                                  {97, 130},
                                  {24, 513},
                                  {50, 1031}}) {
      cases.push_back({type, tokens, out, in, Store::overwrite});
      cases.push_back({type, tokens, out, in, Store::add});
    }
  return cases;
}

}  // namespace deltasane::kernel
