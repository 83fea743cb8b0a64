#include "kernel/norm/norm.h"

#include "kernel/isa_dispatch.h"
#include "kernel/norm/cpu.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void layer_norm(View<const float> x, const float* weight, const float* bias, float eps,
                View<float> y, const Cpu& cpu) {
  expect_rows("x", x, x.shape);
  expect_rows("y", y, x.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(x.shape[0], cpu, [&](int64_t row) {
      cpu::layer_norm_row<isa>(x.at(row), weight, bias, eps, y.at(row), x.shape[1]);
    });
  });
}

void layer_norm_backward(const LayerNormGradient& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("dy", op.dy, op.x.shape);
  expect_rows("dx", op.dx, op.x.shape);
  const int64_t channels = op.x.shape[1];
  float* const totals[] = {op.dweight, op.dbias};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(op.x.shape[0], channels, totals, cpu, [&](int64_t row, auto partial) {
      cpu::layer_norm_row_backward<isa>({channels, op.x.at(row), op.weight, op.eps, op.dy.at(row),
                                         op.dx.at(row), partial(0), partial(1)});
    });
  });
}

}  // namespace deltasane::kernel
