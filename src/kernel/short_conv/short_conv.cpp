#include "kernel/short_conv/short_conv.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"
#include "kernel/short_conv/cpu.h"

namespace deltasane::kernel {
namespace {

void expect_taps(int64_t taps) {
  if (taps < 1 || taps > cpu::max_taps)
    fail(Fault::argument, "taps: expected 1 to ", cpu::max_taps, ", found ", taps);
}

}  // namespace

void short_conv(const ShortConv& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("y", op.y, op.x.shape);
  expect_taps(op.taps);
  const int64_t time = op.x.shape[0], channels = op.x.shape[1], kept = op.taps - 1;
  // The input of time t, which may lie before x.
  const auto input = [&](int64_t t) -> const float* {
    return t < 0 ? op.before + (kept + t) * channels : op.x.at(t);
  };
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(time, cpu, [&](int64_t t) {
      const float* inputs[cpu::max_taps];
      for (int64_t j = 0; j < op.taps; ++j) inputs[j] = input(t - kept + j);
      cpu::short_conv_row<isa>(inputs, op.taps, op.weight, op.y.at(t), channels);
    });
  });
  for (int64_t i = 0; i < kept && time > 0; ++i)  // oldest first: what is read is not yet written
    std::copy_n(input(time - kept + i), channels, op.before + i * channels);
}

void short_conv_backward(const ShortConvGradient& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("dy", op.dy, op.x.shape);
  expect_rows("dx", op.dx, op.x.shape);
  expect_taps(op.taps);
  const int64_t time = op.x.shape[0], channels = op.x.shape[1], taps = op.taps;
  const auto inputs_of = [&](int64_t t, const float* (&inputs)[cpu::max_taps]) {
    for (int64_t j = 0; j < taps; ++j) {
      const int64_t from = t - taps + 1 + j;
      inputs[j] = from < 0 ? nullptr : op.x.at(from);
    }
  };
  float* const totals[] = {op.dweight};
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row(time, cpu, [&](int64_t t) {
      const float* inputs[cpu::max_taps];
      inputs_of(t, inputs);
      cpu::short_conv_sum_backward<isa>(inputs, taps, op.weight, op.dy.at(t), channels);
    });
    each_row_summing(time, taps * channels, totals, cpu, [&](int64_t t, auto partial) {
      const float *inputs[cpu::max_taps], *dsums[cpu::max_taps];
      inputs_of(t, inputs);
      for (int64_t j = 0; j < taps; ++j) {
        const int64_t to = t + taps - 1 - j;
        dsums[j] = to < time ? op.dy.at(to) : nullptr;
      }
      cpu::short_conv_row_backward<isa>({taps, channels, op.weight, inputs, op.dy.at(t), dsums,
                                         op.dx.at(t), partial(0)});
    });
  });
}

}  // namespace deltasane::kernel
