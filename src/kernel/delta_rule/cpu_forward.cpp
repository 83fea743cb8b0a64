#include "kernel/delta_rule/cpu.h"
#include "kernel/delta_rule/cpu_columns.h"

namespace deltasane::kernel::cpu {

template <Isa isa, int N>
void forward(const ForwardHead* heads, int64_t count, Rows rows, float* scratch) {
  constexpr int64_t most = forward_rows;
  TurningState<isa, N> states[most_heads_together];
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    const Rows some{begin, rows.end < begin + most ? rows.end : begin + most};
    for (int64_t h = 0; h < count; ++h)
      states[h].begin(heads[h].state, some, scratch + h * most * N);
    const int64_t steps = heads[0].head.run_count * count;
    for (int64_t step = 0; step < steps; ++step) {
      const ForwardHead& now = heads[step % count];
      const int64_t after = step + 1 < steps ? step + 1 : step;
      const ForwardHead& next = heads[after % count];
      Ahead<isa, N> ahead(next.head, next.head.runs[after / count], some, next.y);
      states[step % count].take(now.head, now.head.runs[step / count], now.y, ahead);
    }
    for (int64_t h = 0; h < count; ++h) states[h].as_rows();
  }
}

template void forward<Isa::DELTASANE_ISA, 16>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 32>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 64>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 128>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 256>(const ForwardHead*, int64_t, Rows, float*);

}  // namespace deltasane::kernel::cpu
