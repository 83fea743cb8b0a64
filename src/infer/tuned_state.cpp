#include "infer/tuned_state.h"

#include <algorithm>

#include "base/printable.h"
#include "format/open.h"
#include "infer/finite.h"

namespace deltasane {

RecurrentState read_tuned_state(const fs::path& path, const StateShape& shape) {
  const TensorFile file = open_tensor_file(path);
  const Shape one_layer{shape.heads, shape.head_size, shape.head_size};
  RecurrentState state(shape);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = cat("blocks.", layer, ".att.time_state");
    const StoredTensor* const tensor = file.find(name);
    if (!tensor)
      fail(Fault::file, path, ": expected the tensor ", name, " of a tuned state of ", shape.layers,
           " layers, found none");
    if (tensor->shape != one_layer)
      fail(Fault::file, path, ": tensor ", name, ": expected shape ", one_layer, ", found ",
           tensor->shape, "; the state was tuned for another model");
    const Tensor<float> values = file.read(*tensor);
    std::ranges::copy(values.span(), state.mutable_memory().view().at(layer));
  }
  if (int64_t(file.tensors().size()) != shape.layers)
    fail(Fault::file, path, ": expected a tensor for each of ", shape.layers,
         " layers and nothing else, found ", file.tensors().size(), " tensors; the last is ",
         printable(file.tensors().back().name));
  if (const StateScan scan = scan_state(state); !scan.finite())
    fail(Fault::overflow, path, ": ", overflow_message(*scan.not_finite, 0));
  return state;
}

}  // namespace deltasane
