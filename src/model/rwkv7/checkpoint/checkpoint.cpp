#include "model/rwkv7/checkpoint/checkpoint.h"

#include <charconv>
#include <cstring>

#include "base/printable.h"
#include "format/open.h"
#include "model/rwkv7/checkpoint/norms.h"
#include "model/rwkv7/checkpoint/unsupported.h"
#include "model/rwkv7/publish/publish.h"

namespace deltasane {
namespace {

Tensor<float> transposed(const Tensor<float>& in) {
  constexpr int64_t tile = 32;
  const int64_t rows = in.shape()[0], columns = in.shape()[1];
  Tensor<float> out({columns, rows});
  for (int64_t i0 = 0; i0 < rows; i0 += tile)
    for (int64_t j0 = 0; j0 < columns; j0 += tile)
      for (int64_t i = i0; i < std::min(i0 + tile, rows); ++i)
        for (int64_t j = j0; j < std::min(j0 + tile, columns); ++j)
          out[j * rows + i] = in[i * columns + j];
  return out;
}

std::string_view text_of(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace

Rwkv7Checkpoint::Rwkv7Checkpoint(const fs::path& path) : Rwkv7Checkpoint(open_tensor_file(path)) {}

Rwkv7Checkpoint::Rwkv7Checkpoint(TensorFile file)
    : file_(std::move(file)), metadata_(file_.metadata()) {
  refuse_other_architectures(file_);
  map_tensors();
  order_names();
  derive_metadata();
  bool has_tau = false;
  for (const std::string& name : names_) has_tau = has_tau || name.ends_with("_tau");
  sane_ = sane_settings(has_tau, metadata_, file_.path());
}

const Rwkv7Checkpoint::Part& Rwkv7Checkpoint::part(std::string_view name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end())
    fail(Fault::file, file_.path(), ": expected the tensor ", name, ", found none");
  return found->second;
}

// The stored tensor in its official shape (before transposing), or one slice of it.
StoredTensor Rwkv7Checkpoint::view_of(const Part& part) const {
  StoredTensor view = *part.tensor;
  view.shape = part.transposed ? Shape{part.shape[1], part.shape[0]} : part.shape;
  view.stride = contiguous_strides(view.shape);
  const size_t size = view.bytes.size() / size_t(part.slices);
  view.bytes = view.bytes.subspan(size * size_t(part.slice), size);
  view.offset += size * size_t(part.slice);
  return view;
}

Tensor<float> Rwkv7Checkpoint::read(std::string_view name) const {
  const Part& found = part(name);
  if (found.tensor->contiguous()) {
    Tensor<float> out = file_.read(view_of(found));
    return found.transposed ? transposed(out) : std::move(out);
  }
  const Tensor<float> whole = file_.read(*found.tensor);
  Tensor<float> out(found.transposed ? Shape{found.shape[1], found.shape[0]} : found.shape);
  std::copy_n(whole.data() + found.slice * out.elements(), out.elements(), out.data());
  return found.transposed ? transposed(out) : std::move(out);
}

std::optional<StoredTensor> Rwkv7Checkpoint::in_place(std::string_view name) const {
  const Part& found = part(name);
  if (found.transposed || !found.tensor->contiguous() || found.tensor->type == StoredType::foreign)
    return std::nullopt;
  StoredTensor view = view_of(found);
  const auto address = reinterpret_cast<uintptr_t>(view.bytes.data());
  if (address % uintptr_t(layout_of(view.type).alignment) != 0) return std::nullopt;
  view.name = name;
  return view;
}

Rwkv7Shape Rwkv7Checkpoint::validate() const {
  Rwkv7Shape shape = measure_rwkv7(*this, embedding_norm_);
  shape.norms = rwkv7_norms(metadata_, shape.head_size, file_.path());
  const auto agree = [&](const char* key, int64_t found) {
    const std::string_view stated = text_of(metadata_, key);
    if (!stated.empty() && stated != "null" && stated != cat(found))
      fail(Fault::file, file_.path(), ": ", key, ": expected ", printable(stated),
           " as stated, found ", found, " in the tensors");
  };
  for (const char* const key : {"rwkv7.block_count", "n_layer", "config.num_hidden_layers"})
    agree(key, shape.layers);
  for (const char* const key : {"rwkv7.embedding_length", "n_embed", "config.hidden_size"})
    agree(key, shape.channels);
  for (const char* const key : {"n_vocab", "config.vocab_size"}) agree(key, shape.vocabulary);
  for (const char* const key : {"rwkv7.wkv.head_size", "config.head_dim"})
    agree(key, shape.head_size);
  return shape;
}

void Rwkv7Checkpoint::order_names() {
  for (const auto& [name, ignored] : parts_) {
    if (!name.starts_with("blocks.")) continue;
    int64_t block = 0;
    std::from_chars(name.data() + 7, name.data() + name.size(), block);
    layers_ = std::max(layers_, block + 1);
  }
  Rwkv7Shape all;
  all.layers = layers_;
  all.sane = true;
  each_rwkv7_tensor(all, [&](const std::string& name, const Rwkv7Row&) {
    if (parts_.contains(name)) names_.push_back(name);
  });
  require(names_.size() == parts_.size(), "every mapped tensor is in the list of RWKV-7's");
}

// From config.json's object, or from tensors of one element.
void Rwkv7Checkpoint::derive_sane() {
  for (const std::string_view name : {sane_alpha_tensor, sane_chunk_tensor}) {
    if (const auto stated = metadata_.find(cat("config.", name)); stated != metadata_.end())
      metadata_.try_emplace(std::string(name), stated->second);
    const StoredTensor* const tensor = file_.find(name);
    if (!tensor) continue;
    if (tensor->shape.elements() != 1)
      fail(Fault::file, file_.path(), ": tensor ", name, ": expected one number, found shape ",
           tensor->shape);
    double value = 0;
    if (tensor->type == StoredType::f64)
      std::memcpy(&value, tensor->bytes.data(), sizeof value);
    else
      value = double(file_.read(*tensor)[0]);
    metadata_.try_emplace(std::string(name), cat(value));
  }
}

void Rwkv7Checkpoint::derive_metadata() {
  derive_rwkv7_norms(metadata_);
  derive_sane();
  if (text_of(metadata_, "config.norm_first") == "false" ||
      text_of(metadata_, "config.embedding_layer_norm_fused") == "true")
    embedding_norm_ = EmbeddingNorm::optional;
}

}  // namespace deltasane
