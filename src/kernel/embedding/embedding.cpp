#include "kernel/embedding/embedding.h"

#include <algorithm>

#include "kernel/rows/rows.h"

namespace deltasane::kernel {

void embed(std::span<const int32_t> tokens, const float* table, View<float> x, const Cpu& cpu) {
  const auto rows = int64_t(tokens.size());
  const int64_t channels = x.shape[1];
  expect_rows("x", x, {rows, channels});
  cpu.threads.parallel(rows, [&](int64_t row) {
    std::copy_n(table + tokens[size_t(row)] * channels, channels, x.at(row));
  });
}

void embed_backward(std::span<const int32_t> tokens, View<const float> dx, float* dtable,
                    const Cpu& cpu) {
  const auto rows = int64_t(tokens.size());
  const int64_t channels = dx.shape[1];
  expect_rows("dx", dx, {rows, channels});
  constexpr int64_t together = 64;  // channels of a task, which goes through the rows in their order
  cpu.threads.parallel((channels + together - 1) / together, [&](int64_t piece) {
    const int64_t begin = piece * together, end = std::min(channels, begin + together);
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = dx.at(row);
      float* const sum = dtable + tokens[size_t(row)] * channels;
      for (int64_t i = begin; i < end; ++i) sum[i] += from[i];
    }
  });
}

}  // namespace deltasane::kernel
