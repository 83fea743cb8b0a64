// Sums over many floats on the CPU, in double and in an order that depends on their number alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"

namespace deltasane::kernel {

double sum_of_squares(std::span<const float> x, const Cpu& cpu);

// Calls body(begin, end) for ranges of [0, count) on all threads.
template <class Body>
void each_range(int64_t count, const Cpu& cpu, Body body) {
  constexpr int64_t together = 1 << 15;
  cpu.threads.parallel((count + together - 1) / together, [&](int64_t range) {
    body(range * together, std::min(count, (range + 1) * together));
  });
}

}  // namespace deltasane::kernel
