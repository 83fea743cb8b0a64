#include "kernel/delta_rule/cpu/columns.h"
#include "kernel/delta_rule/cpu/kernels.h"

namespace deltasane::kernel::cpu {

template <Isa isa, int N>
void forward(const ForwardHead* heads, int64_t count, Rows rows, float* scratch) {
  constexpr int64_t max_rows = forward_rows;
  SlabState<isa, N> states[max_heads_together];
  for (int64_t begin = rows.begin; begin < rows.end; begin += max_rows) {
    const Rows some{begin, rows.end < begin + max_rows ? rows.end : begin + max_rows};
    for (int64_t h = 0; h < count; ++h)
      states[h].begin(heads[h].state, some, scratch + h * max_rows * N);
    constexpr int64_t group = Prefetcher<isa, N>::heads_together;
    const int64_t run_count = heads[0].head.run_count;
    for (int64_t run = 0; run < run_count; ++run)
      for (int64_t first = 0; first < count; first += group) {
        const int64_t end = first + group < count ? first + group : count;
        const int64_t next = end < count ? end : 0;
        const int64_t next_run = next == 0 && run + 1 < run_count ? run + 1 : run;
        Prefetcher<isa, N> prefetcher(heads[next].head, count - next < group ? count - next : group,
                                      heads[next].head.runs[next_run], some, heads[next].y);
        for (int64_t h = first; h < end; ++h)
          states[h].advance(heads[h].head, heads[h].head.runs[run], heads[h].y, prefetcher);
      }
    for (int64_t h = 0; h < count; ++h) states[h].to_rows();
  }
}

template void forward<Isa::DELTASANE_ISA, 16>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 32>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 64>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 128>(const ForwardHead*, int64_t, Rows, float*);
template void forward<Isa::DELTASANE_ISA, 256>(const ForwardHead*, int64_t, Rows, float*);

}  // namespace deltasane::kernel::cpu
