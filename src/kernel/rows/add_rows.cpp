#include "kernel/rows/add_rows.h"

#include "kernel/isa_dispatch.h"
#include "kernel/rows/cpu.h"
#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void add_rows(View<const float> from, View<float> to, const Cpu& cpu) {
  expect_rows("to", to, from.shape);
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(from.shape[0], [&](int64_t row) {
      cpu::add_row<isa>(from.at(row), to.at(row), from.shape[1]);
    });
  });
}

}  // namespace deltasane::kernel
