#include "model/train/rounding.h"

#include <algorithm>

namespace deltasane {

void Rounding::take_parameters(std::span<const float> parameters, const kernel::Cpu& cpu) {
  parameters_.resize(parameters.size());
  constexpr size_t together = 1 << 15;
  const size_t pieces = (parameters.size() + together - 1) / together;
  cpu.threads.parallel(int64_t(pieces), [&](int64_t piece) {
    const size_t begin = size_t(piece) * together;
    const size_t end = std::min(parameters.size(), begin + together);
    for (size_t i = begin; i < end; ++i) parameters_[i] = rounded_to_bf16(parameters[i]);
  });
}

View<const float> Rounding::of(View<const float> rows, Operand operand, const kernel::Cpu& cpu) {
  std::vector<float>& copy = operands_[operand];
  if (copy.size() < size_t(rows.shape.elements())) copy.resize(size_t(rows.shape.elements()));
  const int64_t n = rows.shape[1];
  cpu.threads.parallel(rows.shape[0], [&](int64_t row) {
    const float* const from = rows.at(row);
    float* const to = copy.data() + row * n;
    for (int64_t i = 0; i < n; ++i) to[i] = rounded_to_bf16(from[i]);
  });
  return {copy.data(), rows.shape};
}

}  // namespace deltasane
