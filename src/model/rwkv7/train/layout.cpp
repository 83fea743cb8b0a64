#include "model/rwkv7/train/layout.h"

#include "base/error.h"
#include "model/rwkv7/checkpoint/norms.h"

namespace deltasane::rwkv7 {

ParameterLayout parameter_layout(const Rwkv7Shape& shape) {
  return ParameterLayout([&](auto&& visit) {
    each_rwkv7_parameter(shape, [&](const std::string& name, const Rwkv7Row& row, int64_t block) {
      const int64_t outside = row.role == ParameterRole::embedding ? 0 : shape.layers;
      visit(name, rwkv7_shape(shape, row), row.role, block < 0 ? outside : block);
    });
  });
}

Parameters parameters_of(const TensorSource& source, const Rwkv7Shape& shape,
                         const std::optional<SaneSettings>& sane) {
  Parameters model(parameter_layout(shape), sane);
  model.take(source);
  return model;
}

Parameters grafted(const TensorSource& source, Rwkv7Shape& shape, const SaneSettings& sane) {
  if (shape.sane)
    fail(Fault::argument, source.where(),
         ": expected a model without SANE, found one that has x_tau and w_tau already");
  expect_valid(sane);
  shape.sane = true;
  return parameters_of(source, shape, sane);
}

Metadata metadata_of(const Rwkv7Norms& norms, const std::optional<SaneSettings>& sane) {
  Metadata metadata = rwkv7_norm_metadata(norms);
  metadata.merge(sane_metadata(sane));
  return metadata;
}

Rwkv7Checkpoint as_checkpoint(const Parameters& parameters, const Rwkv7Norms& norms) {
  TensorFile file("safetensors", "the model in training");
  for (const ParameterSlot& slot : parameters.layout().slots()) {
    StoredTensor tensor;
    tensor.name = slot.name;
    tensor.shape = slot.shape;
    tensor.stride = contiguous_strides(slot.shape);
    tensor.bytes = std::as_bytes(parameters.of(slot.name));
    file.add(std::move(tensor));
  }
  file.metadata() = metadata_of(norms, parameters.sane());
  file.metadata()["architecture"] = "rwkv7";
  return Rwkv7Checkpoint(std::move(file));
}

}  // namespace deltasane::rwkv7
