#include "kernel/decay/decay.h"

#include "kernel/decay/reference.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void decay(const Decay& op, const Cpu& cpu) {
  expect_rows("z", op.z, op.z.shape);
  if (op.heads < 1 || op.z.shape[1] % op.heads != 0)
    fail(Fault::argument, "heads: expected a divisor of ", op.z.shape[1], " channels, found ",
         op.heads);
  const int64_t size = op.z.shape[1] / op.heads;
  each_row(op.z.shape[0], cpu, [&](int64_t row) {
    float* const z = op.z.at(row);
    for (int64_t c = 0; c < op.z.shape[1]; ++c)
      z[c] = reference::decay(z[c] + op.bias[c], op.rate[c / size], op.bound);
  });
}

}  // namespace deltasane::kernel
