#include "model/rwkv7/tuned_state/tuned_state.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "format/open.h"

namespace deltasane {

SequenceState read_tuned_state(const fs::path& path, std::shared_ptr<const StateLayout> layout) {
  const TensorFile file = open_tensor_file(path);
  const int64_t layers = layout->layers();
  SequenceState state(std::move(layout));
  for (const StatePart& part : state.layout().parts()) {
    if (part.kind != StateKind::memory) continue;
    const std::string name = cat("blocks.", part.layer, ".att.time_state");
    const StoredTensor* const tensor = file.find(name);
    if (!tensor)
      fail(Fault::file, path, ": expected the tensor ", name, " of a tuned state of ", layers,
           " layers, found none");
    if (tensor->shape != part.shape)
      fail(Fault::file, path, ": tensor ", name, ": expected shape ", part.shape, ", found ",
           tensor->shape, "; the state was tuned for another model");
    const Tensor<float> values = file.read(*tensor);
    for (int64_t i = 0; i < values.elements(); ++i)
      if (!std::isfinite(values[i]))
        fail(Fault::overflow, path, ": tensor ", name, ": element ", i,
             ": expected a finite number, found ", values[i]);
    std::ranges::copy(values.span(), state.mutable_of(part).data());
  }
  if (int64_t(file.tensors().size()) != layers)
    fail(Fault::file, path, ": expected a tensor for each of ", layers,
         " layers and nothing else, found ", file.tensors().size(), " tensors; the last is ",
         printable(file.tensors().back().name));
  return state;
}

}  // namespace deltasane
