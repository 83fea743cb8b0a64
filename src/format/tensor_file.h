// A file of named tensors of any container format: the result of all readers.
//
// Shapes are row-major, slowest dimension first. `bytes` points into the mapped file, which the
// TensorFile owns; a tensor's bytes are valid as long as the TensorFile (or a copy) lives. The
// bytes of a tensor that is not contiguous (only .pth has such) span its first to its last element.
//
// Readers take bytes and a name for messages, so that tests can pass corrupted input; the open_
// functions map a file and keep the mapping.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/io/file.h"
#include "format/contents/checksummed.h"
#include "format/stored_type.h"
#include "tensor/tensor.h"

namespace deltasane {

inline constexpr size_t max_tensors = 100'000;  // in one file; large models have a few thousand
inline constexpr size_t max_tensor_name = 512;  // bytes

using Metadata = std::map<std::string, std::string>;
using MetadataLists = std::map<std::string, std::vector<std::string>>;

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;
  Shape stride;                      // in elements
  std::span<const std::byte> bytes;  // empty for a foreign type of unknown size
  uint64_t offset = 0;               // of the first byte in its file, for messages
  std::string foreign_type;          // the container's name of a foreign type

  bool contiguous() const { return stride == contiguous_strides(shape); }
};

class TensorFile {
 public:
  TensorFile(std::string format, std::string path)
      : format_(std::move(format)), path_(std::move(path)) {}

  const std::string& format() const { return format_; }  // "safetensors", "pth", "gguf", ...
  const std::string& path() const { return path_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in file order
  const StoredTensor* find(std::string_view name) const;                 // null when absent
  const Metadata& metadata() const { return metadata_; }
  // Lists of a folder's config.json, whole; metadata has the first element of each. Not part of the
  // identity.
  const MetadataLists& lists() const { return lists_; }
  const std::optional<std::vector<std::string>>& vocabulary() const { return vocabulary_; }
  // Arrays of the metadata, by key; null when absent or of another type.
  const std::vector<std::string>* texts(const std::string& key) const;
  const std::vector<int64_t>* integers(const std::string& key) const;
  const std::vector<float>* reals(const std::string& key) const;

  // What has a checksum that is verified by who opens the file (contents/contents.h).
  const std::vector<ChecksummedBytes>& checksummed() const { return checksummed_; }

  // The tensor as contiguous floats in its stored shape. Fails, naming the type, if it is foreign.
  Tensor<float> read(const StoredTensor& tensor) const;

  // xxh3 (64 bits) of every tensor's name, type, shape and bytes in file order, and of the
  // metadata. Reads the whole file once.
  uint64_t identity() const;

  // Drops the resident pages of the mapped files (base/io/file.h).
  void drop_pages() const {
    for (const auto& file : files_) file->drop_pages();
  }

  // For readers.
  void add(StoredTensor tensor);  // fails on a second tensor of the same name
  void add(ChecksummedBytes bytes) { checksummed_.push_back(std::move(bytes)); }
  void keep(std::shared_ptr<const MappedFile> file) { files_.push_back(std::move(file)); }
  void merge(const TensorFile& shard);  // adds its tensors and metadata, shares its mappings
  Metadata& metadata() { return metadata_; }
  MetadataLists& lists() { return lists_; }
  void set_vocabulary(std::vector<std::string> tokens) { vocabulary_ = std::move(tokens); }
  void set_texts(const std::string& key, std::vector<std::string> texts) {
    texts_[key] = std::move(texts);
  }
  void set_integers(const std::string& key, std::vector<int64_t> integers) {
    integers_[key] = std::move(integers);
  }
  void set_reals(const std::string& key, std::vector<float> reals) {
    reals_[key] = std::move(reals);
  }

 private:
  std::string format_, path_;
  std::vector<StoredTensor> tensors_;
  std::vector<ChecksummedBytes> checksummed_;
  std::unordered_map<std::string, size_t> index_;
  Metadata metadata_;
  MetadataLists lists_;
  std::optional<std::vector<std::string>> vocabulary_;
  std::map<std::string, std::vector<std::string>> texts_;
  std::map<std::string, std::vector<int64_t>> integers_;
  std::map<std::string, std::vector<float>> reals_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
};

// A shape from untrusted input: at most max_rank sizes whose product, ignoring zeros, is below
// 2^60, so that later arithmetic on it cannot overflow.
Shape checked_shape(std::span<const uint64_t> sizes, std::string_view what);

// Maps a file, parses it with `reader`, and keeps the mapping.
template <class Reader>
TensorFile open_mapped(const fs::path& path, Reader&& reader) {
  const auto map = std::make_shared<const MappedFile>(path);
  const std::string name = path.string();
  TensorFile file = reader(map->bytes(), name);
  file.keep(map);
  return file;
}

}  // namespace deltasane
