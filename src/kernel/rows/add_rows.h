// to += from, for rows of floats on the CPU.
#pragma once

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

void add_rows(View<const float> from, View<float> to, const Cpu& cpu);  // (rows, C) each

}  // namespace deltasane::kernel
