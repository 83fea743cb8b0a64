// What the CPU's operators on rows share. A row is one token of one sequence: its channels are
// contiguous, rows may be apart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "kernel/cpu_device.h"
#include "tensor/view.h"

namespace deltasane::kernel {

// Calls body(row) for every row, a few rows at a time on each thread.
template <class Body>
void each_row(int64_t rows, const Cpu& cpu, Body body) {
  constexpr int64_t together = 8;
  cpu.threads.parallel((rows + together - 1) / together, [&](int64_t piece) {
    const int64_t end = std::min(rows, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row) body(row);
  });
}

template <class T>
void expect_rows(std::string_view name, const View<T>& view, const Shape& expected) {
  expect_shape(name, view, expected);
  if (view && view.stride[1] != 1)
    fail(Fault::argument, name, ": expected contiguous channels, found a stride of ",
         view.stride[1]);
}

inline int64_t heads_of(const Shape& rows, int64_t head_size) {
  if (head_size < 1 || rows[1] % head_size != 0)
    fail(Fault::argument, "head size: expected a divisor of ", rows[1], " channels, found ",
         head_size);
  return rows[1] / head_size;
}

}  // namespace deltasane::kernel
