#include "kernel/decay/decay.h"

#include "kernel/decay/reference.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {
namespace {

int64_t channels_of_head(const Shape& z, int64_t heads) {
  if (heads < 1 || z[1] % heads != 0)
    fail(Fault::argument, "heads: expected a divisor of ", z[1], " channels, found ", heads);
  return z[1] / heads;
}

}  // namespace

void decay(const Decay& op, const Cpu& cpu) {
  expect_rows("z", op.z, op.z.shape);
  const int64_t size = channels_of_head(op.z.shape, op.heads);
  each_row(op.z.shape[0], cpu, [&](int64_t row) {
    float* const z = op.z.at(row);
    for (int64_t c = 0; c < op.z.shape[1]; ++c)
      z[c] = reference::decay(z[c] + op.bias[c], op.rate[c / size], op.bound);
  });
}

void decay_backward(const DecayGradient& op, const Cpu& cpu) {
  expect_rows("z", op.z, op.z.shape);
  expect_rows("dw", op.dw, op.z.shape);
  const int64_t channels = op.z.shape[1], size = channels_of_head(op.z.shape, op.heads);
  Tensor<float> dlog_rate({channels});
  float* const totals[] = {op.dbias, dlog_rate.data()};
  each_row_summing(op.z.shape[0], channels, totals, cpu, [&](int64_t row, auto partial) {
    const float* const z = op.z.at(row);
    float *const d = op.dw.at(row), *const dbias = partial(0), *const drate = partial(1);
    for (int64_t c = 0; c < channels; ++c) {
      const auto by =
          reference::decay_derivatives(z[c] + op.bias[c], op.rate[c / size], op.bound);
      drate[c] += d[c] * by.log_rate;
      dbias[c] += d[c] *= by.x;
    }
  });
  for (int64_t c = 0; c < channels; ++c) op.dlog_rate[c / size] += dlog_rate[c];
}

}  // namespace deltasane::kernel
