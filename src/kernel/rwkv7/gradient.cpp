#include "kernel/rwkv7/gradient.h"

#include <algorithm>
#include <initializer_list>

#include "kernel/isa_dispatch.h"
#include "kernel/rwkv7/gradient_rows.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {
namespace {

template <class T>
void expect_gradient_rows(std::string_view name, const View<T>& view, const Shape& expected) {
  expect_shape(name, view, expected);
  if (view && view.stride[1] != 1)
    fail(Fault::argument, name, ": expected channels side by side, found a stride of ",
         view.stride[1]);
}

// Calls body(row, sums) for every row, where `sums` are vectors of `channels` numbers, one for
// each of `totals`, that belong to a few rows at a time; then adds those of all rows to `totals`,
// in the order of the rows.
template <class Body>
void each_row_summing(int64_t rows, int64_t channels, std::span<float* const> totals,
                      const Cpu& cpu, Body body) {
  constexpr int64_t together = 16;
  const int64_t pieces = (rows + together - 1) / together, vectors = int64_t(totals.size());
  if (rows == 0) return;
  Tensor<float> partial({pieces, vectors, channels});
  cpu.threads.parallel(pieces, [&](int64_t piece) {
    const int64_t end = std::min(rows, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row)
      body(row, [&](int64_t i) { return partial.view().at(piece, i); });
  });
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(vectors, [&](int64_t i) {
      if (!totals[size_t(i)]) return;
      for (int64_t piece = 0; piece < pieces; ++piece)
        cpu::add_row<isa>(partial.view().at(piece, i), totals[size_t(i)], channels);
    });
  });
}

}  // namespace

void layer_norm_backward(const LayerNormGradient& op, const Cpu& cpu) {
  expect_gradient_rows("x", op.x, op.x.shape);
  expect_gradient_rows("dy", op.dy, op.x.shape);
  expect_gradient_rows("dx", op.dx, op.x.shape);
  const int64_t channels = op.x.shape[1];
  float* const totals[] = {op.dweight, op.dbias};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(op.x.shape[0], channels, totals, cpu, [&](int64_t row, auto sum) {
      cpu::norm_row_backward<isa>({channels, op.x.at(row), op.weight, op.eps, op.dy.at(row),
                                   op.dx.at(row), sum(0), sum(1)});
    });
  });
}

void token_shift_backward(const TokenShiftGradient& op, const Cpu& cpu) {
  expect_gradient_rows("u", op.u, op.u.shape);
  expect_gradient_rows("du", op.du, op.u.shape);
  require(op.mu.size() == op.dout.size() && op.mu.size() == op.dmu.size(),
          "token_shift_backward has one gradient per mix");
  for (const View<const float>& dout : op.dout) expect_gradient_rows("dout", dout, op.u.shape);
  const int64_t channels = op.u.shape[1], time = op.u.shape[0];
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(time, channels, op.dmu, cpu, [&](int64_t row, auto sum) {
      std::fill_n(op.du.at(row), channels, 0.0f);
      for (size_t i = 0; i < op.mu.size(); ++i)
        cpu::shift_row_backward<isa>(
            {channels, op.u.at(row), row ? op.u.at(row - 1) : nullptr, op.mu[i], op.dout[i].at(row),
             row + 1 < time ? op.dout[i].at(row + 1) : nullptr, op.du.at(row), sum(int64_t(i))});
    });
  });
}

void time_mix_inputs_backward(const TimeMixInputsGradient& op, const Cpu& cpu) {
  const Shape rows = op.k.shape;
  for (const View<const float>& view : std::initializer_list<View<const float>>{
           op.w, op.a, op.k, op.v, op.db, op.dw, op.da, op.dk, op.dv})
    expect_gradient_rows("time_mix_inputs_backward", view, rows);
  if (op.gate)
    for (const View<const float>& view :
         std::initializer_list<View<const float>>{op.v_first, op.dgate, op.dv_first})
      expect_gradient_rows("value residual", view, rows);
  const int64_t heads = rows[1] / op.head_size;
  require(heads * op.head_size == rows[1], "channels are whole heads");
  float* const totals[] = {op.dw0, op.da0, op.dk_k, op.dk_a, op.gate ? op.dv0 : nullptr};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(rows[0], rows[1], totals, cpu, [&](int64_t row, auto sum) {
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
                                     sum(0),
                                     sum(1),
                                     sum(4),
                                     sum(2),
                                     sum(3)});
    });
  });
}

void time_mix_output_backward(const TimeMixOutputGradient& op, const Cpu& cpu) {
  const Shape rows = op.y.shape;
  for (const View<const float>& view : std::initializer_list<View<const float>>{
           op.y, op.r, op.k, op.v, op.g, op.dy, op.dr, op.dk, op.dv, op.dg})
    expect_gradient_rows("time_mix_output_backward", view, rows);
  const int64_t heads = rows[1] / op.head_size;
  require(heads * op.head_size == rows[1], "channels are whole heads");
  float* const totals[] = {op.dweight, op.dbias, op.dr_k};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(rows[0], rows[1], totals, cpu, [&](int64_t row, auto sum) {
      cpu::output_row_backward<isa>({heads, op.head_size, op.y.at(row), op.r.at(row), op.k.at(row),
                                     op.v.at(row), op.g.at(row), op.weight, op.bias, op.r_k, op.eps,
                                     op.dy.at(row), op.dr.at(row), op.dk.at(row), op.dv.at(row),
                                     op.dg.at(row), sum(0), sum(1), sum(2)});
    });
  });
}

void activate_backward(Activation activation, View<const float> y, View<float> dy, const Cpu& cpu) {
  expect_gradient_rows("y", y, y.shape);
  expect_gradient_rows("dy", dy, y.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(y.shape[0], [&](int64_t row) {
      switch (activation) {
        case Activation::tanh:
          return cpu::tanh_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
        case Activation::sigmoid:
          return cpu::sigmoid_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
        case Activation::squared_relu:
          return cpu::squared_relu_row_backward<isa>(y.at(row), dy.at(row), y.shape[1]);
      }
    });
  });
}

void add_rows(View<const float> from, View<float> to, const Cpu& cpu) {
  expect_gradient_rows("to", to, from.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(from.shape[0], [&](int64_t row) {
      cpu::add_row<isa>(from.at(row), to.at(row), from.shape[1]);
    });
  });
}

}  // namespace deltasane::kernel
