#include "train/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/matmul/gradient.h"
#include "train/sums.h"

namespace deltasane::train {
namespace {

void turn(View<const float> from, View<float> to) {
  for (int64_t i = 0; i < from.shape[0]; ++i)
    for (int64_t j = 0; j < from.shape[1]; ++j) to(j, i) = from(i, j);
}

// c = a a'
void gram(const Tensor<float>& a, Tensor<float>& c, const kernel::Cpu& cpu) {
  const Shape& shape = a.shape();
  kernel::matmul(kernel::Weights::view(kernel::WeightType::f32, a.data(), shape[0], shape[1]),
                 a.view(), c.view(), cpu);
}

}  // namespace

void newton_schulz(View<float> u, const kernel::Cpu& cpu) {
  const int64_t rows = u.shape[0], columns = u.shape[1];
  const bool turned = rows > columns;
  const int64_t n = std::min(rows, columns), m = std::max(rows, columns);
  Tensor<float> x({n, m}), next({n, m}), A({n, n}), B({n, n});
  if (turned)
    turn(u, x.view());
  else
    std::copy_n(u.data, u.shape.elements(), x.data());
  const float factor = float(1 / (std::sqrt(sum_of_squares(x.span(), cpu)) + 1e-7));
  for (float& value : x.span()) value *= factor;
  for (int step = 0; step < newton_schulz_steps; ++step) {
    gram(x, A, cpu);
    gram(A, B, cpu);  // A is symmetric: A A' = A A
    for (int64_t i = 0; i < B.elements(); ++i)
      B[i] = float(newton_schulz_b) * A[i] + float(newton_schulz_c) * B[i];
    kernel::matmul_nn(B.view(), x.view(), next.view(), cpu);
    for (int64_t i = 0; i < x.elements(); ++i) next[i] += float(newton_schulz_a) * x[i];
    std::swap(x, next);
  }
  if (turned)
    turn(x.view(), u);
  else
    std::copy_n(x.data(), x.elements(), u.data);
}

}  // namespace deltasane::train
