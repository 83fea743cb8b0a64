// Gradients of parameters, which all rows share: sums over rows in an order that depends on the
// shape alone, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernel/cpu_device.h"
#include "kernel/isa_dispatch.h"
#include "kernel/rows/cpu.h"
#include "tensor/tensor.h"

namespace deltasane::kernel {

// Calls body(row, partial) for every row. partial(i) is a vector of `channels` zeros, for
// totals[i], that 16 rows share; body adds the row's part to it. Then all partial sums are added to
// the totals, in the order of the rows. totals[i] null: not wanted.
template <class Body>
void each_row_summing(int64_t rows, int64_t channels, std::span<float* const> totals,
                      const Cpu& cpu, Body body) {
  constexpr int64_t together = 16;
  const int64_t pieces = (rows + together - 1) / together, vectors = int64_t(totals.size());
  if (rows == 0) return;
  Tensor<float> partial({pieces, vectors, channels});
  cpu.threads.parallel(pieces, [&](int64_t piece) {
    const int64_t end = std::min(rows, (piece + 1) * together);
    for (int64_t row = piece * together; row < end; ++row)
      body(row, [&](int64_t i) { return partial.view().at(piece, i); });
  });
  with_float_isa(cpu.isa, [&]<Isa isa>() {
    cpu.threads.parallel(vectors, [&](int64_t i) {
      if (!totals[size_t(i)]) return;
      for (int64_t piece = 0; piece < pieces; ++piece)
        cpu::add_row<isa>(partial.view().at(piece, i), totals[size_t(i)], channels);
    });
  });
}

}  // namespace deltasane::kernel
