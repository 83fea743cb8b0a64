#include "kernel/muon/muon.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernel/matmul/gradient.h"
#include "kernel/sums/sums.h"

namespace deltasane::kernel {
namespace {

void transpose(View<const float> from, View<float> to) {
  for (int64_t i = 0; i < from.shape[0]; ++i)
    for (int64_t j = 0; j < from.shape[1]; ++j) to(j, i) = from(i, j);
}

// c = a a'
void gram(const Tensor<float>& a, Tensor<float>& c, const Cpu& cpu) {
  const Shape& shape = a.shape();
  matmul(Weights::view(WeightType::f32, a.data(), shape[0], shape[1]), a.view(), c.view(), cpu);
}

}  // namespace

void newton_schulz(View<float> u, const Cpu& cpu) {
  const int64_t rows = u.shape[0], columns = u.shape[1];
  const bool transposed = rows > columns;
  const int64_t n = std::min(rows, columns), m = std::max(rows, columns);
  Tensor<float> x({n, m}), next({n, m}), A({n, n}), B({n, n});
  if (transposed)
    transpose(u, x.view());
  else
    std::copy_n(u.data, u.shape.elements(), x.data());
  const float factor = float(1 / (std::sqrt(sum_of_squares(x.span(), cpu)) + 1e-7));
  for (float& value : x.span()) value *= factor;
  for (int step = 0; step < newton_schulz_steps; ++step) {
    gram(x, A, cpu);
    gram(A, B, cpu);  // A is symmetric: A A' = A A
    for (int64_t i = 0; i < B.elements(); ++i)
      B[i] = float(newton_schulz_b) * A[i] + float(newton_schulz_c) * B[i];
    matmul_nn(B.view(), x.view(), next.view(), cpu);
    for (int64_t i = 0; i < x.elements(); ++i) next[i] += float(newton_schulz_a) * x[i];
    std::swap(x, next);
  }
  if (transposed)
    transpose(x.view(), u);
  else
    std::copy_n(x.data(), x.elements(), u.data);
}

void muon_step(const MuonStep& op, const Cpu& cpu) {
  const double rate = op.params.rate;
  const float mu = float(op.params.momentum), kept = float(1 - rate * op.decay);
  const double largest = double(std::max(op.rows, op.columns));
  const float change = float(rate * 0.2 * std::sqrt(largest));
  const int64_t count = op.rows * op.columns;
  float *const w = op.w, *const m = op.momentum;
  const float* const g = op.g;
  Tensor<float> u({op.rows, op.columns});
  each_range(count, cpu, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      m[i] = mu * m[i] + g[i];
      u[i] = g[i] + mu * m[i];
    }
  });
  newton_schulz(u.view(), cpu);
  each_range(count, cpu, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) w[i] = kept * w[i] - change * u[i];
  });
}

}  // namespace deltasane::kernel
