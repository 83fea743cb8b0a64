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
    constexpr int64_t team = Ahead<isa, N>::heads_together;
    Ahead<isa, N> ahead;
    for (int64_t run = 0; run < heads[0].head.run_count; ++run)
      for (int64_t h = 0; h < count; ++h) {
        if (h % team == 0) {
          const int64_t first = h + team < count ? h + team : 0, then = first ? run : run + 1;
          const ForwardHead& next = heads[first];
          ahead = then < next.head.run_count
                      ? Ahead<isa, N>(next.head, count - first < team ? count - first : team,
                                      next.head.runs[then], some, next.y)
                      : Ahead<isa, N>();
        }
        states[h].take(heads[h].head, heads[h].head.runs[run], heads[h].y, ahead);
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
