#include "model/state/sequence_state.h"

namespace deltasane {
namespace {

StateNumbers zeros(const StateLayout& layout) {
  return {Tensor<float>({layout.floats()}), std::vector<std::vector<float>>(size_t(layout.caches()))};
}

}  // namespace

const std::shared_ptr<const StateLayout>& SequenceState::no_layout() {
  static const auto none = std::make_shared<const StateLayout>();
  return none;
}

SequenceState::SequenceState(std::shared_ptr<const StateLayout> layout)
    : layout_(std::move(layout)) {}

bool SequenceState::is_on_host() const {
  const std::lock_guard lock(*mutex_);
  return is_on_host_;
}

const StateNumbers& SequenceState::on_host() const {
  const std::lock_guard lock(*mutex_);
  const bool has_numbers = numbers_.fixed.elements() == layout_->floats() &&
                           int64_t(numbers_.caches.size()) == layout_->caches();
  if (!has_numbers) numbers_ = zeros(*layout_);
  if (!is_on_host_) {
    device_->download(numbers_);
    is_on_host_ = true;
  }
  return numbers_;
}

StateNumbers& SequenceState::changed_on_host() {
  on_host();
  device_.reset();
  is_fresh_ = false;
  return numbers_;
}

std::span<const float> SequenceState::of(const StatePart& part) const {
  if (part.grows()) return cache(part.offset);
  return fixed().subspan(size_t(part.offset), size_t(part.floats()));
}

std::span<const float> SequenceState::of(const StateHead& head) const {
  return fixed().subspan(size_t(head.offset), size_t(head.floats()));
}

std::span<float> SequenceState::mutable_of(const StatePart& part) {
  if (part.grows()) return mutable_cache(part.offset);
  return mutable_fixed().subspan(size_t(part.offset), size_t(part.floats()));
}

uint64_t SequenceState::bytes() const {
  uint64_t floats = uint64_t(layout_->floats());
  for (int64_t i = 0; i < layout_->caches(); ++i) floats += cache(i).size();
  return floats * sizeof(float);
}

SequenceState SequenceState::clone() const {
  const std::lock_guard lock(*mutex_);
  SequenceState copy;
  copy.layout_ = layout_;
  copy.position = position;
  copy.alphas = alphas;
  if (device_) copy.device_ = device_->clone();
  copy.is_on_host_ = is_on_host_ && !device_;
  copy.is_fresh_ = is_fresh_;
  if (copy.is_on_host_) copy.numbers_ = {numbers_.fixed.clone(), numbers_.caches};
  return copy;
}

SequenceState SequenceState::clone_on_host() const {
  const StateNumbers& numbers = on_host();
  const std::lock_guard lock(*mutex_);
  SequenceState copy;
  copy.layout_ = layout_;
  copy.position = position;
  copy.alphas = alphas;
  copy.is_fresh_ = is_fresh_;
  copy.numbers_ = {numbers.fixed.clone(), numbers.caches};
  return copy;
}

void SequenceState::changed_on_device() {
  require(device_ != nullptr, "what changed on a device is there");
  is_on_host_ = is_fresh_ = false;
}

std::optional<DeviceState::Magnitudes> SequenceState::largest_on_device() const {
  if (is_on_host()) return std::nullopt;
  return device_->largest();
}

std::optional<std::vector<double>> SequenceState::head_norms_on_device() const {
  if (is_on_host()) return std::nullopt;
  return device_->head_norms();
}

}  // namespace deltasane
