#include "kernel/delta_rule/cpu.h"
#include "kernel/delta_rule/cpu_rows.h"

namespace deltasane::kernel::cpu {

template <Isa isa, int N>
void forward(const Head& head, Rows rows, Track<float> state, Track<float> y) {
  for (int64_t i = 0; i < head.run_count; ++i)
    take_run<isa, N, ReadOut::yes>(head, head.runs[i], rows, state, y);
}

template void forward<Isa::DELTASANE_ISA, 16>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 32>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 64>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 128>(const Head&, Rows, Track<float>, Track<float>);
template void forward<Isa::DELTASANE_ISA, 256>(const Head&, Rows, Track<float>, Track<float>);

}  // namespace deltasane::kernel::cpu
