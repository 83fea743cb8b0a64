#include "kernel/token_shift/token_shift.h"

#include <algorithm>

#include "kernel/isa_dispatch.h"
#include "kernel/rows/row_sums.h"
#include "kernel/rows/rows.h"
#include "kernel/token_shift/cpu.h"

namespace deltasane::kernel {

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

void token_shift_row(const float* u, const float* before, const float* mu, float* out, int64_t count,
                     Isa set) {
  with_float_isa(set, [&]<Isa isa>() { cpu::shift_row<isa>(u, before, mu, out, count); });
}

void token_shift_backward(const TokenShiftGradient& op, const Cpu& cpu) {
  expect_rows("u", op.u, op.u.shape);
  expect_rows("du", op.du, op.u.shape);
  require(op.mu.size() == op.dout.size() && op.mu.size() == op.dmu.size(),
          "token_shift_backward has one gradient per mix");
  for (const View<const float>& dout : op.dout) expect_rows("dout", dout, op.u.shape);
  const int64_t channels = op.u.shape[1], time = op.u.shape[0];
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    each_row_summing(time, channels, op.dmu, cpu, [&](int64_t row, auto partial) {
      std::fill_n(op.du.at(row), channels, 0.0f);
      for (size_t i = 0; i < op.mu.size(); ++i)
        cpu::shift_row_backward<isa>({channels, op.u.at(row), row ? op.u.at(row - 1) : nullptr,
                                      op.mu[i], op.dout[i].at(row),
                                      row + 1 < time ? op.dout[i].at(row + 1) : nullptr,
                                      op.du.at(row), partial(int64_t(i))});
    });
  });
}

}  // namespace deltasane::kernel
