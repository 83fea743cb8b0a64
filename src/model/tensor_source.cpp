#include "model/tensor_source.h"

#include <cmath>

namespace deltasane {

std::optional<NonFinite> find_non_finite(const TensorSource& source) {
  for (const std::string& name : source.names()) {
    const Tensor<float> tensor = source.read(name);
    for (int64_t i = 0; i < tensor.elements(); ++i)
      if (!std::isfinite(tensor[i])) return NonFinite{name, i, tensor[i]};
  }
  return std::nullopt;
}

void expect_finite(const TensorSource& source) {
  if (const std::optional<NonFinite> bad = find_non_finite(source))
    fail(Fault::overflow, source.where(), ": tensor ", bad->tensor, ": element ", bad->index,
         ": expected a finite number, found ", bad->value);
}

}  // namespace deltasane
