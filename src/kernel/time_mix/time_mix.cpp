#include "kernel/time_mix/time_mix.h"

#include <initializer_list>

#include "kernel/isa_dispatch.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"
#include "kernel/time_mix/cpu.h"

namespace deltasane::kernel {

void time_mix_inputs(const TimeMixInputs& op, const Cpu& cpu) {
  const Shape rows = op.k.shape;
  expect_rows("k", op.k, rows);
  expect_rows("w", op.w, rows);
  expect_rows("a", op.a, rows);
  expect_rows("b", op.b, rows);
  expect_rows("v", op.v, rows);
  if (op.gate) expect_rows("gate", op.gate, rows);
  if (op.gate) expect_rows("v_first", op.v_first, rows);
  const int64_t heads = heads_of(rows, op.head_size);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(rows[0], cpu, [&](int64_t row) {
      cpu::inputs_row<isa>({heads, op.head_size, op.w.at(row), op.a.at(row), op.b.at(row),
                            op.k.at(row), op.v.at(row), op.gate ? op.gate.at(row) : nullptr,
                            op.gate ? op.v_first.at(row) : nullptr, op.w0, op.a0, op.v0, op.k_k,
                            op.k_a, op.key_norm});
    });
  });
}

void time_mix_output(const TimeMixOutput& op, const Cpu& cpu) {
  const Shape rows = op.y.shape;
  expect_rows("y", op.y, rows);
  expect_rows("r", op.r, rows);
  expect_rows("k", op.k, rows);
  expect_rows("v", op.v, rows);
  expect_rows("g", op.g, rows);
  const int64_t heads = heads_of(rows, op.head_size);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(rows[0], cpu, [&](int64_t row) {
      cpu::output_row<isa>({heads, op.head_size, op.y.at(row), op.r.at(row), op.k.at(row),
                            op.v.at(row), op.g.at(row), op.weight, op.bias, op.r_k, op.eps});
    });
  });
}

void time_mix_inputs_backward(const TimeMixInputsGradient& op, const Cpu& cpu) {
  const Shape rows = op.k.shape;
  for (const View<const float>& view : std::initializer_list<View<const float>>{
           op.w, op.a, op.k, op.v, op.db, op.dw, op.da, op.dk, op.dv})
    expect_rows("time_mix_inputs_backward", view, rows);
  if (op.gate)
    for (const View<const float>& view :
         std::initializer_list<View<const float>>{op.v_first, op.dgate, op.dv_first})
      expect_rows("value residual", view, rows);
  const int64_t heads = rows[1] / op.head_size;
  require(heads * op.head_size == rows[1], "channels are whole heads");
  float* const totals[] = {op.dw0, op.da0, op.dk_k, op.dk_a, op.gate ? op.dv0 : nullptr};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(rows[0], rows[1], totals, cpu, [&](int64_t row, auto partial) {
      const bool gated = bool(op.gate);
      cpu::inputs_row_backward<isa>({heads,
                                     op.head_size,
                                     op.w.at(row),
                                     op.a.at(row),
                                     op.k.at(row),
                                     op.v.at(row),
                                     gated ? op.gate.at(row) : nullptr,
                                     gated ? op.v_first.at(row) : nullptr,
                                     op.w0,
                                     op.a0,
                                     op.v0,
                                     op.k_k,
                                     op.k_a,
                                     op.dw.at(row),
                                     op.da.at(row),
                                     op.dk.at(row),
                                     op.dv.at(row),
                                     op.db.at(row),
                                     gated ? op.dgate.at(row) : nullptr,
                                     gated ? op.dv_first.at(row) : nullptr,
                                     partial(0),
                                     partial(1),
                                     partial(4),
                                     partial(2),
                                     partial(3),
                                     op.key_norm});
    });
  });
}

void time_mix_output_backward(const TimeMixOutputGradient& op, const Cpu& cpu) {
  const Shape rows = op.y.shape;
  for (const View<const float>& view : std::initializer_list<View<const float>>{
           op.y, op.r, op.k, op.v, op.g, op.dy, op.dr, op.dk, op.dv, op.dg})
    expect_rows("time_mix_output_backward", view, rows);
  const int64_t heads = rows[1] / op.head_size;
  require(heads * op.head_size == rows[1], "channels are whole heads");
  float* const totals[] = {op.dweight, op.dbias, op.dr_k};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(rows[0], rows[1], totals, cpu, [&](int64_t row, auto partial) {
      cpu::output_row_backward<isa>({heads, op.head_size, op.y.at(row), op.r.at(row), op.k.at(row),
                                     op.v.at(row), op.g.at(row), op.weight, op.bias, op.r_k, op.eps,
                                     op.dy.at(row), op.dr.at(row), op.dk.at(row), op.dv.at(row),
                                     op.dg.at(row), partial(0), partial(1), partial(2)});
    });
  });
}

}  // namespace deltasane::kernel
