#include "model/gated_delta/checkpoint/stored_layout.h"

#include <algorithm>
#include <cmath>

namespace deltasane::gated_delta {
namespace {

// From (matrices, out, in) to (matrices, in, out).
Tensor<float> transposed_back(const Tensor<float>& from) {
  const Shape& shape = from.shape();
  const int64_t out = shape[1], in = shape[2];
  Tensor<float> to({shape[0], in, out});
  for (int64_t m = 0; m < shape[0]; ++m)
    for (int64_t i = 0; i < out; ++i)
      for (int64_t j = 0; j < in; ++j)
        to[(m * in + j) * out + i] = from[(m * out + i) * in + j];
  return to;
}

}  // namespace

StoredLayout::StoredLayout(const Config& config, const TensorSource& source,
                           void (*map_names)(TensorMap&))
    : config_(config), source_(source), map_(config) {
  map_names(map_);
}

// Our numbers in the order of the stored rows.
const Tensor<float>& StoredLayout::changed_back(const std::string& ours, const Part& part) {
  if (last_ == ours) return values_;
  last_ = ours, values_ = source_.read(ours);
  switch (part.change) {
    case Change::none:
      break;
    case Change::add_one:
      for (float& value : values_.span()) value -= 1;
      break;
    case Change::logarithm:
      for (float& value : values_.span()) value = std::exp(value);
      break;
    case Change::log_of_negative:
      for (float& value : values_.span()) value = -std::exp(value);
      break;
    case Change::transpose:
      values_ = transposed_back(values_);
      break;
    case Change::group_the_columns: {
      const int64_t row = config_.value_channels(), size = config_.value_size;
      const Tensor<float> grouped = values_.clone();
      for (int64_t at = 0; at < values_.elements(); at += size) {
        const int64_t head = at % row / size;
        std::copy_n(grouped.data() + at, size,
                    values_.data() + at / row * row + tiled_head(config_, head) * size);
      }
      break;
    }
  }
  return values_;
}

Tensor<float> StoredLayout::make(std::string_view stored) {
  const auto found = std::ranges::find(tensors(), stored, &StoredTensor::name);
  require(found != tensors().end(), "a tensor of the layout is made");
  Tensor<float> made(found->shape);
  for (const auto& [ours, part] : map_.parts()) {
    const auto of_this = [&](const Rows& rows) { return rows.tensor == &*found; };
    if (std::ranges::none_of(part.rows, of_this)) continue;
    const float* from = changed_back(ours, part).data();
    for (const Rows& rows : part.rows) {
      if (of_this(rows))
        std::copy_n(from, rows.count * part.length, made.data() + rows.first * part.length);
      from += rows.count * part.length;
    }
  }
  return made;
}

}  // namespace deltasane::gated_delta
