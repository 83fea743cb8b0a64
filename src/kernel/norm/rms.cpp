#include "kernel/norm/rms.h"

#include "kernel/isa_dispatch.h"
#include "kernel/norm/cpu_rms.h"
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

}  // namespace deltasane::kernel
