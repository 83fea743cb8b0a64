#include "kernel/norm/rms.h"

#include "kernel/isa_dispatch.h"
#include "kernel/norm/cpu_rms.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void rms_norm(const RmsNorm& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("y", op.y, op.x.shape);
  if (op.gate) expect_rows("gate", op.gate, op.x.shape);
  const int64_t heads = heads_of(op.x.shape, op.size);
  const bool silu = op.activation == GateActivation::silu;
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(op.x.shape[0], cpu, [&](int64_t row) {
      for (int64_t at = 0; at < heads * op.size; at += op.size)
        cpu::rms_norm_row<isa>({op.size, op.x.at(row) + at, op.weight, op.eps, op.y.at(row) + at,
                                op.gate ? op.gate.at(row) + at : nullptr, silu});
    });
  });
}

void rms_norm_backward(const RmsNormGradient& op, const Cpu& cpu) {
  const Shape& shape = op.x.shape;
  expect_rows("x", op.x, shape), expect_rows("dy", op.dy, shape), expect_rows("dx", op.dx, shape);
  if (op.gate) expect_rows("gate", op.gate, shape), expect_rows("dgate", op.dgate, shape);
  const int64_t heads = heads_of(shape, op.size);
  const bool silu = op.activation == GateActivation::silu, adds = op.store == Store::add;
  float* const totals[] = {op.dweight};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(shape[0], op.size, totals, cpu, [&](int64_t row, auto partial) {
      for (int64_t at = 0; at < heads * op.size; at += op.size)
        cpu::rms_norm_row_backward<isa>(
            {op.size, op.x.at(row) + at, op.weight, op.eps,
             op.gate ? op.gate.at(row) + at : nullptr, silu, op.dy.at(row) + at,
             op.dx.at(row) + at, adds, partial(0), op.gate ? op.dgate.at(row) + at : nullptr});
    });
  });
}

void l2_norm(View<float> x, int64_t size, float eps, float scale, const Cpu& cpu) {
  expect_rows("x", x, x.shape);
  const int64_t heads = heads_of(x.shape, size);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(x.shape[0], cpu, [&](int64_t row) {
      for (int64_t h = 0; h < heads; ++h)
        cpu::l2_norm_row<isa>(x.at(row) + h * size, eps, scale, size);
    });
  });
}

void l2_norm_backward(View<const float> x, int64_t size, float eps, float scale, View<float> dy,
                      const Cpu& cpu) {
  expect_rows("x", x, x.shape), expect_rows("dy", dy, x.shape);
  const int64_t heads = heads_of(x.shape, size);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(x.shape[0], cpu, [&](int64_t row) {
      for (int64_t at = 0; at < heads * size; at += size)
        cpu::l2_norm_row_backward<isa>(x.at(row) + at, eps, scale, dy.at(row) + at, size);
    });
  });
}

}  // namespace deltasane::kernel
