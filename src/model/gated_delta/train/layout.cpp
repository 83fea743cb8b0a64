#include "model/gated_delta/train/layout.h"

#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

ParameterRole role_of(std::string_view name, const Shape& shape, TensorForm form) {
  if (name == "embedding.weight") return ParameterRole::embedding;
  if (name == "head.weight") return ParameterRole::head;
  if (name.ends_with("w_tau")) return ParameterRole::sane;
  if (name.ends_with("_down.weight") && !name.ends_with("kv_down.weight"))
    return ParameterRole::low_rank;
  if (name.ends_with("decay_up.weight") || name.ends_with("gate_up.weight"))
    return ParameterRole::low_rank;
  const bool one_row = form == TensorForm::matrix && shape[0] == 1;
  return form == TensorForm::vector || one_row ? ParameterRole::vector : ParameterRole::matrix;
}

}  // namespace

ParameterLayout parameter_layout(const Config& config) {
  return ParameterLayout([&](auto&& visit) {
    int64_t layer = 0;
    each_tensor(config, [&](const std::string& name, const Shape& shape, TensorForm form) {
      const ParameterRole role = role_of(name, shape, form);
      while (layer < config.layers() && !name.starts_with(layer_tensor(layer, "")) &&
             role != ParameterRole::embedding)
        ++layer;
      visit(name, shape, role, layer);
    });
  });
}

Checkpoint as_checkpoint(const Config& config, const Parameters& parameters) {
  TensorFile file("safetensors", "the model in training");
  for (const ParameterSlot& slot : parameters.layout().slots()) {
    StoredTensor tensor;
    tensor.name = slot.name, tensor.shape = slot.shape;
    tensor.stride = contiguous_strides(slot.shape);
    tensor.bytes = std::as_bytes(parameters.of(slot.name));
    file.add(std::move(tensor));
  }
  file.metadata() = own_metadata(config, sane_metadata(parameters.sane()));
  return Checkpoint(std::move(file));
}

}  // namespace deltasane::gated_delta
