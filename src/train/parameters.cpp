#include "train/parameters.h"

#include <algorithm>

namespace deltasane::train {

ParameterLayout::ParameterLayout(const Rwkv7Shape& shape) : shape_(shape) {
  constexpr int64_t apart = 16;
  each_rwkv7_tensor(shape, [&](const std::string& name, const Rwkv7Row& row) {
    index_[name] = slots_.size();
    slots_.push_back({name, rwkv7_shape(shape, row), elements_});
    elements_ += (slots_.back().elements() + apart - 1) / apart * apart;
  });
}

const ParameterSlot& ParameterLayout::slot(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) fail(Fault::argument, "parameters: this model has no tensor ", name);
  return slots_[found->second];
}

int64_t ParameterLayout::parameters() const {
  int64_t sum = 0;
  for (const ParameterSlot& slot : slots_) sum += slot.elements();
  return sum;
}

Parameters::Parameters(const Rwkv7Shape& shape, std::optional<SaneSettings> sane)
    : layout_(shape), sane_(sane), values_({layout_.elements()}) {
  require(shape.sane == sane.has_value(), "a SANE model has SANE's settings");
}

Parameters::Parameters(const Rwkv7Source& source, std::optional<SaneSettings> sane)
    : Parameters(measure_rwkv7(source, EmbeddingNorm::optional), sane) {
  for (const ParameterSlot& slot : layout_.slots()) {
    const Tensor<float> values = source.read(slot.name);
    std::copy_n(values.data(), values.elements(), values_.data() + slot.offset);
  }
}

std::span<float> Parameters::of(std::string_view name) {
  const ParameterSlot& slot = layout_.slot(name);
  return {values_.data() + slot.offset, size_t(slot.elements())};
}

std::span<const float> Parameters::of(std::string_view name) const {
  const ParameterSlot& slot = layout_.slot(name);
  return {values_.data() + slot.offset, size_t(slot.elements())};
}

std::vector<std::string> Parameters::names() const {
  std::vector<std::string> all;
  for (const ParameterSlot& slot : layout_.slots()) all.push_back(slot.name);
  return all;
}

Tensor<float> Parameters::read(std::string_view name) const {
  Tensor<float> copy(shape(name));
  std::ranges::copy(of(name), copy.data());
  return copy;
}

Metadata Parameters::metadata() const {
  if (!sane_) return {};
  return {{"sane.alpha", cat(sane_->alpha)}, {"sane.chunk", cat(sane_->chunk)}};
}

Rwkv7Checkpoint Parameters::as_checkpoint() const {
  TensorFile file("safetensors", "the model in training");
  for (const ParameterSlot& slot : layout_.slots()) {
    StoredTensor tensor;
    tensor.name = slot.name;
    tensor.shape = slot.shape;
    tensor.stride = packed_strides(slot.shape);
    tensor.bytes = std::as_bytes(of(slot.name));
    file.add(std::move(tensor));
  }
  file.metadata() = metadata();
  file.metadata()["architecture"] = "rwkv7";
  return Rwkv7Checkpoint(std::move(file));
}

Parameters grafted(const Rwkv7Source& source, const SaneSettings& sane) {
  Rwkv7Shape shape = measure_rwkv7(source, EmbeddingNorm::optional);
  if (shape.sane)
    fail(Fault::argument, source.where(),
         ": expected a model without SANE, found one that has x_tau and w_tau already");
  if (!(sane.alpha > 0)) fail(Fault::usage, "alpha: expected a number above 0, found ", sane.alpha);
  if (sane.chunk < 1)
    fail(Fault::usage, "chunk: expected a number of tokens above 0, found ", sane.chunk);
  shape.sane = true;
  Parameters model(shape, sane);
  for (const ParameterSlot& slot : model.layout().slots())
    if (source.has(slot.name)) {
      const Tensor<float> values = source.read(slot.name);
      std::ranges::copy(values.span(), model.of(slot.name).data());
    }
  return model;
}

}  // namespace deltasane::train
