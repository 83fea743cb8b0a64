#include "kernel/short_conv/short_conv.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/rows/rows.h"
#include "kernel/short_conv/cpu.h"

namespace deltasane::kernel {

void short_conv(const ShortConv& op, const Cpu& cpu) {
  expect_rows("x", op.x, op.x.shape);
  expect_rows("y", op.y, op.x.shape);
  if (op.taps < 1 || op.taps > cpu::max_taps)
    fail(Fault::argument, "taps: expected 1 to ", cpu::max_taps, ", found ", op.taps);
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

}  // namespace deltasane::kernel
