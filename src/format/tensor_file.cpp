#include "format/tensor_file.h"

#include <array>

#include "base/hash/xxh3.h"
#include "base/printable.h"
#include "format/dequantize.h"

namespace deltasane {
namespace {

struct TensorHash : Xxh3 {
  using Xxh3::add;
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text) {
    add(uint64_t{text.size()});
    add(std::as_bytes(std::span(text)));
  }
};

// Copies strided elements of a plain type into contiguous order.
std::vector<std::byte> gathered(const StoredTensor& tensor, int64_t element) {
  const Shape& shape = tensor.shape;
  std::vector<std::byte> out(size_t(shape.elements() * element));
  std::array<int64_t, max_rank> at{};
  int64_t from = 0;
  for (size_t to = 0; to < out.size(); to += size_t(element)) {
    std::memcpy(out.data() + to, tensor.bytes.data() + from * element, size_t(element));
    for (int i = shape.rank() - 1; i >= 0; --i) {
      from += tensor.stride[i];
      if (++at[size_t(i)] < shape[i]) break;
      from -= tensor.stride[i] * shape[i];
      at[size_t(i)] = 0;
    }
  }
  return out;
}

}  // namespace

const StoredTensor* TensorFile::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const std::vector<std::string>* TensorFile::texts(const std::string& key) const {
  const auto found = texts_.find(key);
  return found == texts_.end() ? nullptr : &found->second;
}

const std::vector<int64_t>* TensorFile::integers(const std::string& key) const {
  const auto found = integers_.find(key);
  return found == integers_.end() ? nullptr : &found->second;
}

const std::vector<float>* TensorFile::reals(const std::string& key) const {
  const auto found = reals_.find(key);
  return found == reals_.end() ? nullptr : &found->second;
}

void TensorFile::add(StoredTensor tensor) {
  if (tensor.name.empty() || tensor.name.size() > max_tensor_name)
    fail(Fault::file, path_, ": tensor ", printable(tensor.name), ": expected a name of 1 to ",
         max_tensor_name, " bytes, found ", tensor.name.size());
  if (tensors_.size() >= max_tensors)
    fail(Fault::file, path_, ": expected at most ", max_tensors, " tensors, found more");
  if (!index_.emplace(tensor.name, tensors_.size()).second)
    fail(Fault::file, path_, ": tensor ", printable(tensor.name), " at byte ", tensor.offset,
         ": expected one tensor of this name, found two");
  tensors_.push_back(std::move(tensor));
}

void TensorFile::merge(const TensorFile& shard) {
  for (const StoredTensor& tensor : shard.tensors_) add(tensor);
  for (const ChecksummedBytes& bytes : shard.checksummed_) add(bytes);
  metadata_.insert(shard.metadata_.begin(), shard.metadata_.end());
  if (shard.vocabulary_) vocabulary_ = shard.vocabulary_;
  files_.insert(files_.end(), shard.files_.begin(), shard.files_.end());
}

Tensor<float> TensorFile::read(const StoredTensor& tensor) const {
  if (tensor.type == StoredType::foreign)
    fail(Fault::file, path_, ": tensor ", printable(tensor.name), " at byte ", tensor.offset,
         ": expected a supported type (f64, f32, f16, bf16, integers, q4_0, q4_1, ",
         "q5_0, q5_1, q8_0), found ", tensor.foreign_type);
  Tensor<float> out(tensor.shape);
  if (tensor.contiguous()) {
    dequantize_to_float(tensor.type, tensor.bytes, out.span());
  } else {
    require(layout_of(tensor.type).block == 1, "only plain numbers have strides");
    dequantize_to_float(tensor.type, gathered(tensor, layout_of(tensor.type).bytes), out.span());
  }
  return out;
}

uint64_t TensorFile::identity() const {
  TensorHash hash;
  for (const StoredTensor& tensor : tensors_) {
    hash.add(tensor.name);
    hash.add(tensor.type == StoredType::foreign ? tensor.foreign_type : name_of(tensor.type));
    hash.add(uint64_t(tensor.shape.rank()));
    for (const int64_t size : tensor.shape) hash.add(uint64_t(size));
    for (const int64_t step : tensor.stride) hash.add(uint64_t(step));
    hash.add(tensor.bytes);
  }
  for (const auto& [key, value] : metadata_) {
    hash.add(key);
    hash.add(value);
  }
  return hash.digest();
}

Shape checked_shape(std::span<const uint64_t> sizes, std::string_view what) {
  if (sizes.size() > size_t(max_rank))
    fail(Fault::file, what, ": expected at most ", max_rank, " dimensions, found ", sizes.size());
  constexpr uint64_t limit = uint64_t{1} << 60;
  Shape shape;
  uint64_t product = 1;
  for (const uint64_t size : sizes) {
    if (size != 0 && product >= limit / size)
      fail(Fault::file, what, ": expected fewer than 2^60 elements, found a dimension of ", size,
           " beside ", product);
    product *= size == 0 ? 1 : size;
    shape.push_back(int64_t(size));
  }
  return shape;
}

}  // namespace deltasane
