#include "kernel/cross_entropy/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "kernel/cross_entropy/cpu.h"
#include "kernel/isa_dispatch.h"

namespace deltasane::kernel {
namespace {

template <Isa isa>
double cross_entropy_row(float* x, int64_t count, int32_t target, float weight, float wrap) {
  if (weight == 0) {
    std::fill_n(x, count, 0.0f);
    return 0;
  }
  const float largest = cpu::largest_of_row<isa>(x, count), wanted = x[target];
  const int64_t top = wrap == 0 ? 0 : std::find(x, x + count, largest) - x;
  const float sum = cpu::exp_row<isa>(x, largest, count);
  cpu::scale_row<isa>(x, weight / sum, count);
  x[target] -= weight;
  if (wrap != 0 && top < count) x[top] += weight * wrap * largest;
  return double(weight) * (std::log(double(sum)) + double(largest) - double(wanted));
}

}  // namespace

void cross_entropy(const CrossEntropy& op, const Cpu& cpu) {
  const int64_t rows = op.logits.shape[0], count = op.logits.shape[1];
  require(int64_t(op.target.size()) == rows && int64_t(op.weight.size()) == rows &&
              int64_t(op.loss.size()) == rows,
          "cross_entropy has one target, weight and loss per row");
  expect_shape("logits", op.logits, {rows, count});
  if (count < 1 || op.logits.stride[1] != 1)
    fail(Fault::argument, "logits: expected at least 1, contiguous, found ", op.logits.shape);
  for (const int32_t target : op.target)
    if (target < 0 || target >= count)
      fail(Fault::argument, "target: expected 0 to ", count - 1, ", found ", target);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(rows, [&](int64_t row) {
      op.loss[size_t(row)] = cross_entropy_row<isa>(
          op.logits.at(row), count, op.target[size_t(row)], op.weight[size_t(row)], op.wrap);
    });
  });
}

}  // namespace deltasane::kernel
