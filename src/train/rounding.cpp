#include "train/rounding.h"

#include "base/error.h"
#include "train/sums.h"

namespace deltasane::train {

Precision precision_named(std::string_view name) {
  if (name == "fp32") return Precision::fp32;
  if (name == "bf16") return Precision::bf16;
  fail(Fault::usage, "optimizer.precision: expected fp32 or bf16, found '", name, "'");
}

std::string_view name_of(Precision precision) {
  return precision == Precision::bf16 ? "bf16" : "fp32";
}

void Rounding::take_parameters(std::span<const float> parameters, const kernel::Cpu& cpu) {
  parameters_.resize(parameters.size());
  each_piece(int64_t(parameters.size()), cpu, [&](int64_t begin, int64_t end) {
    for (auto i = size_t(begin); i < size_t(end); ++i) parameters_[i] = rounded(parameters[i]);
  });
}

View<const float> Rounding::of(View<const float> rows, Operand operand, const kernel::Cpu& cpu) {
  std::vector<float>& copy = operands_[operand];
  if (copy.size() < size_t(rows.shape.elements())) copy.resize(size_t(rows.shape.elements()));
  const int64_t n = rows.shape[1];
  cpu.threads.parallel(rows.shape[0], [&](int64_t row) {
    const float* const from = rows.at(row);
    float* const to = copy.data() + row * n;
    for (int64_t i = 0; i < n; ++i) to[i] = rounded(from[i]);
  });
  return {copy.data(), rows.shape};
}

}  // namespace deltasane::train
