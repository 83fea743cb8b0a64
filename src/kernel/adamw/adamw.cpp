#include "kernel/adamw/adamw.h"

#include <cmath>

#include "kernel/sums/sums.h"

namespace deltasane::kernel {
namespace {

struct AdamFactors {
  float kept, beta1, rest1, beta2, rest2, rate, of_square, eps;
};

// By value and without aliases, so that the compiler vectorises the loop.
void adamw_range(float* __restrict w, const float* __restrict g, float* __restrict m,
                 float* __restrict v, int64_t count, const AdamFactors f) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = f.beta1 * m[i] + f.rest1 * g[i];
    v[i] = f.beta2 * v[i] + f.rest2 * g[i] * g[i];
    w[i] = f.kept * w[i] - f.rate * m[i] / (std::sqrt(v[i]) * f.of_square + f.eps);
  }
}

}  // namespace

void adamw_step(const AdamwStep& op, const Cpu& cpu) {
  const AdamwParams& p = op.params;
  const double rate = p.rate * op.rate_factor;
  const AdamFactors factors{float(1 - rate * op.decay),
                            float(p.beta1),
                            float(1 - p.beta1),
                            float(p.beta2),
                            float(1 - p.beta2),
                            float(rate / (1 - std::pow(p.beta1, double(p.step)))),
                            float(1 / std::sqrt(1 - std::pow(p.beta2, double(p.step)))),
                            float(p.epsilon)};
  each_range(op.count, cpu, [&](int64_t begin, int64_t end) {
    adamw_range(op.w + begin, op.g + begin, op.m + begin, op.v + begin, end - begin, factors);
  });
}

}  // namespace deltasane::kernel
