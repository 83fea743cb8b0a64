#include "model/state/state_layout.h"

#include <algorithm>

namespace deltasane {

std::string_view name_of(StateKind kind) {
  constexpr std::string_view names[] = {"memory", "shift", "convolution", "cache"};
  return names[size_t(kind)];
}

void StateLayout::add(std::string name, StateKind kind, int64_t layer, const Shape& shape) {
  require(layer >= 0 && shape.rank() > 0, "a part of a state belongs to a layer and has a shape");
  require(kind != StateKind::memory || shape.rank() == 3, "a memory has heads, values and keys");
  StatePart part{std::move(name), kind, layer, shape};
  if (part.grows()) {
    part.offset = caches_++;
  } else {
    part.offset = floats_;
    floats_ += part.floats();
  }
  if (kind == StateKind::memory) {
    const bool goes_on = !heads_.empty() && heads_.back().layer == layer;
    const int64_t first = goes_on ? heads_.back().head + 1 : 0;
    for (int64_t i = 0; i < shape[0]; ++i)
      heads_.push_back(
          {layer, first + i, shape[1], shape[2], part.offset + i * shape[1] * shape[2]});
  }
  layers_ = std::max(layers_, layer + 1);
  parts_.push_back(std::move(part));
}

int64_t StateLayout::cache_floats() const {
  int64_t sum = 0;
  for (const StatePart& part : parts_)
    if (part.grows()) sum += part.floats();
  return sum;
}

const StatePart& StateLayout::cache(int64_t number) const {
  const auto found = std::ranges::find_if(
      parts_, [&](const StatePart& part) { return part.grows() && part.offset == number; });
  require(found != parts_.end(), "a state has this cache");
  return *found;
}

StateLayout::HeadRange StateLayout::heads_of(int64_t layer) const {
  HeadRange range;
  for (size_t i = 0; i < heads_.size(); ++i)
    if (heads_[i].layer == layer && range.count++ == 0) range.first = int64_t(i);
  return range;
}

int64_t StateLayout::most_heads() const {
  int64_t most = 0;
  for (const StateHead& head : heads_) most = std::max(most, head.head + 1);
  return most;
}

std::string StateLayout::difference(const StateLayout& other) const {
  const auto text = [](const StatePart& part) {
    return cat(part.name, " of layer ", part.layer, " ", part.shape);
  };
  for (size_t i = 0; i < std::min(parts_.size(), other.parts_.size()); ++i)
    if (parts_[i] != other.parts_[i])
      return cat("expected ", text(parts_[i]), ", found ", text(other.parts_[i]));
  if (parts_.size() == other.parts_.size()) return {};
  return cat("expected ", parts_.size(), " parts in ", layers_, " layers, found ",
             other.parts_.size(), " in ", other.layers_);
}

StateLayout shifts_and_square_heads(int64_t layers, int64_t channels, int64_t heads,
                                    int64_t head_size) {
  StateLayout layout;
  for (int64_t layer = 0; layer < layers; ++layer) {
    layout.add("time mix shift", StateKind::shift, layer, {channels});
    layout.add("channel mix shift", StateKind::shift, layer, {channels});
  }
  for (int64_t layer = 0; layer < layers; ++layer)
    layout.add("memory", StateKind::memory, layer, {heads, head_size, head_size});
  return layout;
}

}  // namespace deltasane
