#include "model/gated_delta/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "model/gated_delta/checkpoint/config_sources.h"
#include "model/gated_delta/checkpoint/tensor_table.h"

namespace deltasane::gated_delta {
namespace {

constexpr std::string_view own_name = "gated_delta";

std::string_view text_of(const TensorFile& file, const char* key) {
  const auto found = file.metadata().find(key);
  return found == file.metadata().end() ? std::string_view() : std::string_view(found->second);
}

// Rows of all value heads, from the order of the file to ours; `head` elements are one head.
template <class T>
void group_columns(const Config& c, std::span<T> numbers, size_t head) {
  const size_t row = head * size_t(c.value_heads);
  std::vector<T> kept(row);
  for (size_t at = 0; at < numbers.size(); at += row) {
    std::copy_n(numbers.data() + at, row, kept.data());
    for (int64_t h = 0; h < c.value_heads; ++h)
      std::copy_n(kept.data() + size_t(tiled_head(c, h)) * head, head,
                  numbers.data() + at + size_t(h) * head);
  }
}

// From (matrices, in, out) to (matrices, out, in).
Tensor<float> transposed(const Tensor<float>& from, const Shape& shape) {
  Tensor<float> to(shape);
  const int64_t out = shape[1], in = shape[2];
  for (int64_t m = 0; m < shape[0]; ++m)
    for (int64_t i = 0; i < out; ++i)
      for (int64_t j = 0; j < in; ++j)
        to[(m * out + i) * in + j] = from[(m * in + j) * out + i];
  return to;
}

}  // namespace

bool is_ours(const TensorFile& file) {
  if (file.metadata().contains("general.architecture"))
    return is_gguf_architecture(text_of(file, "general.architecture"));
  return text_of(file, "architecture") == own_name ||
         is_hugging_face_type(text_of(file, "config.model_type"));
}

Checkpoint::Checkpoint(TensorFile file) : file_(std::move(file)) {
  const bool gguf = file_.metadata().contains("general.architecture");
  const bool own = !gguf && text_of(file_, "architecture") == own_name;
  config_ = gguf  ? gguf_config(file_)
            : own ? stored_settings(file_.metadata(), where())
                  : hugging_face_config(file_);
  expect_consistent(config_, where());
  config_.sane = !gguf && std::ranges::any_of(file_.tensors(), [](const StoredTensor& tensor) {
                   return tensor.name.ends_with("w_tau");
                 });
  for (const char* const key : {"sane.alpha", "sane.chunk"})  // a folder has them in config.json
    if (const std::string_view text = text_of(file_, cat("config.", key).c_str()); !text.empty())
      file_.metadata()[key] = std::string(text);
  sane_ = sane_settings(config_.sane, file_.metadata(), where());
  TensorMap map(file_, config_);
  gguf ? map_gguf_names(map) : own ? map_own_names(map) : map_hugging_face_names(map);
  parts_ = map.parts();
  each_tensor(config_, [&](const std::string& name, const Shape& shape, TensorForm) {
    require(part(name).shape == shape, "a file's names are mapped to all of our tensors");
    names_.push_back(name);
  });
  require(names_.size() == parts_.size(), "only our tensors are mapped");
}

const Part& Checkpoint::part(std::string_view name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end())
    fail(Fault::file, where(), ": expected the tensor ", name, ", found none");
  return found->second;
}

Tensor<float> Checkpoint::read_rows(const Rows& rows, int64_t length) const {
  StoredTensor view = *rows.tensor;
  const StoredLayout layout = layout_of(view.type);
  if (view.type == StoredType::foreign || !view.contiguous() || length % layout.block != 0) {
    const Tensor<float> all = file_.read(view);  // fails for a foreign type
    Tensor<float> some({rows.count, length});
    std::copy_n(all.data() + rows.first * length, rows.count * length, some.data());
    return some;
  }
  const size_t row = size_t(length / layout.block * layout.bytes);
  view.shape = {rows.count, length}, view.stride = contiguous_strides(view.shape);
  view.bytes = view.bytes.subspan(size_t(rows.first) * row, size_t(rows.count) * row);
  return file_.read(view);
}

Tensor<float> Checkpoint::read(std::string_view name) const {
  const Part& found = part(name);
  Tensor<float> all(found.shape);
  float* next = all.data();
  for (const Rows& rows : found.rows) {
    const Tensor<float> some = read_rows(rows, found.length);
    next = std::copy_n(some.data(), some.elements(), next);
  }
  switch (found.change) {
    case Change::none:
      break;
    case Change::add_one:
      for (float& value : all.span()) value = 1 + value;
      break;
    case Change::logarithm:
    case Change::log_of_negative:
      for (float& value : all.span()) {
        const float rate = found.change == Change::logarithm ? value : -value;
        if (!(rate >= 0))
          fail(Fault::file, where(), ": tensor ", found.rows[0].tensor->name,
               ": expected rates of decay of one sign, found ", value);
        value = std::log(rate);
      }
      break;
    case Change::transpose:
      return transposed(all, found.shape);
    case Change::group_the_columns:
      group_columns(config_, all.span(), size_t(config_.value_size));
      break;
  }
  return all;
}

std::optional<StoredTensor> Checkpoint::packed(std::string_view name, int64_t matrix,
                                               std::vector<std::byte>& memory) const {
  const Part& found = part(name);
  const bool columns = found.change == Change::group_the_columns;
  if (found.change != Change::none && !columns) return std::nullopt;
  const StoredType type = found.rows[0].tensor->type;
  const StoredLayout layout = layout_of(type);
  const bool one = found.shape.rank() == 2;
  const int64_t count = found.shape[one ? 0 : 1], length = found.length;
  if (type == StoredType::foreign || length % layout.block != 0 ||
      (columns && config_.value_size % layout.block != 0))
    return std::nullopt;
  const auto row = size_t(length / layout.block * layout.bytes);
  // The rows [from, from + count) of all.
  int64_t from = one ? 0 : matrix * count, left = count;
  std::vector<std::span<const std::byte>> pieces;
  for (const Rows& rows : found.rows) {
    if (rows.tensor->type != type || !rows.tensor->contiguous()) return std::nullopt;
    const int64_t first = std::min(from, rows.count), some = std::min(rows.count - first, left);
    from -= first, left -= some;
    if (some > 0)
      pieces.push_back(rows.tensor->bytes.subspan(size_t(rows.first + first) * row,
                                                  size_t(some) * row));
  }
  StoredTensor view = *found.rows[0].tensor;
  view.name = name, view.shape = {count, length}, view.stride = contiguous_strides(view.shape);
  view.bytes = pieces[0];
  const auto address = reinterpret_cast<uintptr_t>(view.bytes.data());
  if (pieces.size() == 1 && !columns && address % uintptr_t(layout.alignment) == 0) return view;
  memory.clear();
  for (const std::span<const std::byte> piece : pieces)
    memory.insert(memory.end(), piece.begin(), piece.end());
  if (columns) group_columns(config_, std::span(memory), row / size_t(config_.value_heads));
  view.bytes = memory;
  return view;
}

}  // namespace deltasane::gated_delta
