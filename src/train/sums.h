// Sums over many floats, in double and in an order that depends on their number alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"

namespace deltasane::train {

double sum_of_squares(std::span<const float> x, const kernel::Cpu& cpu);

// Calls body(begin, end) for pieces of [0, count) on all threads.
template <class Body>
void each_piece(int64_t count, const kernel::Cpu& cpu, Body body) {
  constexpr int64_t together = 1 << 15;
  cpu.threads.parallel((count + together - 1) / together, [&](int64_t piece) {
    body(piece * together, std::min(count, (piece + 1) * together));
  });
}

}  // namespace deltasane::train
