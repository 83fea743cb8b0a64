#include "model/train/parameters.h"

#include <algorithm>

#include "base/error.h"

namespace deltasane {

void ParameterLayout::add(std::string name, const Shape& shape, ParameterRole role,
                          int64_t bucket) {
  constexpr int64_t apart = 16;
  index_[name] = slots_.size();
  slots_.push_back({std::move(name), shape, role, bucket, elements_});
  elements_ += (slots_.back().elements() + apart - 1) / apart * apart;
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

Parameters::Parameters(ParameterLayout layout, std::optional<SaneSettings> sane)
    : layout_(std::move(layout)), sane_(sane), values_({layout_.elements()}) {
  const bool has_tensors = std::ranges::any_of(
      layout_.slots(), [](const ParameterSlot& slot) { return slot.role == ParameterRole::sane; });
  require(has_tensors == sane.has_value(), "a SANE model has SANE's settings");
}

std::span<float> Parameters::of(std::string_view name) {
  const ParameterSlot& slot = layout_.slot(name);
  return {values_.data() + slot.offset, size_t(slot.elements())};
}

std::span<const float> Parameters::of(std::string_view name) const {
  const ParameterSlot& slot = layout_.slot(name);
  return {values_.data() + slot.offset, size_t(slot.elements())};
}

Parameters Parameters::clone() const {
  Parameters copy(layout_, sane_);
  std::ranges::copy(all(), copy.all().data());
  return copy;
}

void Parameters::take(const TensorSource& source) {
  for (const ParameterSlot& slot : layout_.slots()) {
    if (!source.has(slot.name)) continue;
    const Tensor<float> values = source.read(slot.name);
    require(values.elements() == slot.elements(), "a tensor has the elements of its slot");
    std::ranges::copy(values.span(), values_.data() + slot.offset);
  }
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

}  // namespace deltasane
