#include "kernel/activation/gated.h"

#include "kernel/activation/cpu_gated.h"
#include "kernel/isa_dispatch.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void multiply_by_gate(GateActivation activation, View<const float> gate, View<const float> x,
                      View<float> y, const Cpu& cpu) {
  expect_rows("gate", gate, gate.shape);
  expect_rows("x", x, gate.shape);
  expect_rows("y", y, gate.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(gate.shape[0], cpu, [&](int64_t row) {
      cpu::gated_row<isa>(activation == GateActivation::silu, gate.at(row), x.at(row), y.at(row),
                          gate.shape[1]);
    });
  });
}

void multiply_by_gate_backward(const GateGradient& op, const Cpu& cpu) {
  const Shape& shape = op.gate.shape;
  expect_rows("gate", op.gate, shape), expect_rows("x", op.x, shape);
  expect_rows("dy", op.dy, shape), expect_rows("dgate", op.dgate, shape);
  expect_rows("dx", op.dx, shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(shape[0], cpu, [&](int64_t row) {
      cpu::gated_row_backward<isa>({op.activation == GateActivation::silu, shape[1],
                                    op.gate.at(row), op.x.at(row), op.dy.at(row),
                                    op.dgate.at(row), op.dx.at(row)});
    });
  });
}

}  // namespace deltasane::kernel
