#include "kernel/matmul/check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "base/half.h"
#include "base/random.h"
#include "kernel/matmul/cpu/kernels.h"
#include "kernel/matmul/low_bits/pack.h"
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

// Rows of few bits are whole blocks.
MatmulShape in_blocks(MatmulShape shape) {
  if (is_low_bits(shape.type))
    shape.in = cpu::rounded_up(shape.in, low_bit_columns(shape.type));
  return shape;
}

// Any bits, and scales of which the weights are about as large as the others.
Weights random_low_bits(const MatmulShape& shape, uint64_t seed) {
  const auto bytes = size_t(gguf_block_bytes(shape.type));
  const int64_t count = shape.out * (shape.in / low_bit_columns(shape.type));
  std::vector<std::byte> blocks(size_t(count) * bytes);
  Random stream(seed);
  for (std::byte& byte : blocks) byte = std::byte(uint8_t(stream.word64()));
  const double scale = shape.type == WeightType::q4     ? 0.02
                       : shape.type == WeightType::q6_k ? 1e-4
                                                        : 3e-4;
  for (int64_t b = 0; b < count; ++b) {
    std::byte* const block = blocks.data() + size_t(b) * bytes;
    const f16 d(float(scale * stream.normal())), d_min(float(3 * scale * stream.normal()));
    std::memcpy(block + (shape.type == WeightType::q6_k ? 208 : 0), &d.bits, 2);
    if (shape.type == WeightType::q4_k || shape.type == WeightType::q5_k)
      std::memcpy(block + 2, &d_min.bits, 2);
  }
  return Weights::from_gguf(shape.type, blocks, shape.out, shape.in);
}

Weights random_weights(const MatmulShape& shape, uint64_t seed) {
  if (is_low_bits(shape.type)) return random_low_bits(shape, seed);
  return Weights::copied(shape.type, random_tensor({shape.out, shape.in}, seed, 0.1).span(),
                         shape.out, shape.in);
}

template <class T>
void append(std::vector<T>& all, const Tensor<T>& tensor) {
  all.insert(all.end(), tensor.span().begin(), tensor.span().end());
}

// What a kernel does to x, and to the weights, before it multiplies.
enum class Rounding { defined, bf16_pairs, bf16 };
Rounding rounding_of(const MatmulShape& shape, Isa isa) {
  if (multiplies_bf16(shape.type, shape.tokens, isa)) return Rounding::bf16;
  return multiplies_bf16_pairs(shape.type, shape.tokens, isa) ? Rounding::bf16_pairs
                                                              : Rounding::defined;
}

// The definition in double and in float, of one problem after the other.
struct Yardstick {
  std::vector<double> truth;
  std::vector<float> plain;

  void add(const MatmulProblem& problem, Rounding rounding) {
    Tensor<double> exact({problem.shape.tokens, problem.shape.out});
    for (int64_t e = 0; e < exact.elements(); ++e) exact[e] = problem.y[e];
    multiply(problem, rounding, exact.view());
    append(truth, exact);
    Tensor<float> y = problem.y.clone();
    multiply(problem, rounding, y.view());
    append(plain, y);
  }

 private:
  template <class Real>
  static void multiply(const MatmulProblem& problem, Rounding rounding, View<Real> y) {
    const Store store = problem.shape.store;
    const View<const float> x = problem.x.view();
    if (rounding == Rounding::bf16)
      reference::matmul_bf16<Real>(problem.weights, x, y, store);
    else if (rounding == Rounding::bf16_pairs)
      reference::matmul<Real>(problem.weights, reference::bf16_pairs(x).view(), y, store);
    else
      reference::matmul<Real>(problem.weights, x, y, store);
  }
};

}  // namespace

MatmulProblem::MatmulProblem(const MatmulShape& sizes, uint64_t seed)
    : shape(in_blocks(sizes)),
      weights(random_weights(shape, 3 * seed)),
      x(random_tensor({shape.tokens, shape.in}, 3 * seed + 1, 1.0)),
      y(random_tensor({sizes.tokens, sizes.out}, 3 * seed + 2, 1.0)) {
  if (shape.store == Store::overwrite) y.fill(std::numeric_limits<float>::quiet_NaN());
}

std::vector<std::string> check_matmul(const MatmulShape& shape, uint64_t seed, ThreadPool& threads,
                                      std::span<const Isa> isas) {
  // Four problems are compared together, so that the yardstick, the worst error of plain
  // arithmetic, is the worst of many numbers even for small outputs.
  std::map<Rounding, Yardstick> yardsticks;
  for (const Isa isa : isas) yardsticks[rounding_of(shape, isa)];
  std::vector<std::vector<float>> found(isas.size());
  for (uint64_t i = 0; i < 4; ++i) {
    const MatmulProblem problem(shape, seed * 1000 + i);
    for (auto& [rounding, yardstick] : yardsticks) yardstick.add(problem, rounding);
    for (size_t which = 0; which < isas.size(); ++which) {
      Tensor<float> y = problem.y.clone();
      matmul(problem.weights, problem.x.view(), y.view(), {threads, isas[which]}, shape.store);
      append(found[which], y);
    }
  }
  std::vector<std::string> wrong;
  for (size_t which = 0; which < isas.size(); ++which) {
    const Yardstick& yardstick = yardsticks[rounding_of(shape, isas[which])];
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
