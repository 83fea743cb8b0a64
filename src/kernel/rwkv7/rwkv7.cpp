#include "kernel/rwkv7/rwkv7.h"

#include "kernel/isa_dispatch.h"
#include "kernel/rwkv7/rows.h"

namespace deltasane::kernel {
namespace {

// Calls body(row) for every row, a few rows at a time on each thread.
template <class Body>
void each_row(int64_t rows, const Cpu& cpu, Body body) {
  constexpr int64_t together = 8;
  cpu.threads.parallel((rows + together - 1) / together, [&](int64_t piece) {
    const int64_t end = std::min(rows, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row) body(row);
  });
}

template <class T>
void expect_rows(std::string_view name, const View<T>& view, const Shape& expected) {
  expect_shape(name, view, expected);
  if (view && view.stride[1] != 1)
    fail(Fault::argument, name, ": expected channels side by side, found a stride of ",
         view.stride[1]);
}

int64_t heads_of(const Shape& rows, int64_t head_size) {
  if (head_size < 1 || rows[1] % head_size != 0)
    fail(Fault::argument, "head size: expected a divisor of ", rows[1], " channels, found ",
         head_size);
  return rows[1] / head_size;
}

}  // namespace

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

void token_shift(const TokenShift& op, const Cpu& cpu) {
  expect_rows("u", op.u, op.u.shape);
  require(op.mu.size() == op.out.size(), "token_shift has one output per mix");
  for (const View<float>& out : op.out) expect_rows("out", out, op.u.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(op.u.shape[0], cpu, [&](int64_t row) {
      const float* before = row == 0 ? op.before : op.u.at(row - 1);
      for (size_t i = 0; i < op.mu.size(); ++i)
        cpu::shift_row<isa>(op.u.at(row), before, op.mu[i], op.out[i].at(row), op.u.shape[1]);
    });
  });
}

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
                            op.k_a});
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

void activate(Activation activation, View<float> x, const Cpu& cpu) {
  expect_rows("x", x, x.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(x.shape[0], cpu, [&](int64_t row) {
      switch (activation) {
        case Activation::tanh:
          return cpu::tanh_row<isa>(x.at(row), x.shape[1]);
        case Activation::sigmoid:
          return cpu::sigmoid_row<isa>(x.at(row), x.shape[1]);
        case Activation::squared_relu:
          return cpu::squared_relu_row<isa>(x.at(row), x.shape[1]);
      }
    });
  });
}

}  // namespace deltasane::kernel
