#include "kernel/delta_rule/cpu.h"
#include "kernel/delta_rule/cpu_columns.h"

namespace deltasane::kernel::cpu {

template <Isa isa, int N>
void forward(const Head& head, Rows rows, Track<float> state, Track<float> y) {
  constexpr int64_t most = TurningState<isa, N>::most_rows;
  for (int64_t begin = rows.begin; begin < rows.end; begin += most) {
    TurningState<isa, N> some(state, {begin, rows.end < begin + most ? rows.end : begin + most});
    for (int64_t i = 0; i < head.run_count; ++i) some.take(head, head.runs[i], y);
    some.as_rows();
  }
}

template void forward<Isa::DELTASANE_ISA, 16>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 32>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 64>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 128>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 256>(const Head&, Rows, Track<float>, Track<float>);

}  // namespace deltasane::kernel::cpu
