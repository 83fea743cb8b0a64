#include "format/pth/pth.h"

#include <algorithm>

#include "base/checked.h"
#include "base/crc32/crc32.h"
#include "base/printable.h"
#include "format/contents/contents.h"
#include "format/pth/pickle.h"
#include "format/pth/zip.h"

namespace deltasane {
namespace {

constexpr size_t max_pickle = size_t{64} << 20;

class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const std::string& name) : name_(name) {
    entries_ = read_zip(bytes, name);
    if (entries_.empty()) fail(Fault::file, name, ": expected entries in the archive, found none");
    const std::string& first = entries_.front().name;
    folder_ = first.substr(0, first.find('/') + 1);
    const std::string storages = cat(folder_, "data/");
    const bool stated = states_checksums(entries_);
    for (const ChecksummedBytes& entry : entries_) {
      index_.emplace(entry.name, &entry);
      if (!stated) continue;
      if (entry.name.starts_with(storages))
        unverified_.push_back(entry);
      else
        expect_checksum(name, entry, crc32(entry.bytes));
    }
  }

  // The bytes of tensors, which are many. All others are verified.
  const std::vector<ChecksummedBytes>& unverified() const { return unverified_; }

  const ChecksummedBytes* find(std::string_view entry) const {
    const auto found = index_.find(cat(folder_, entry));
    return found == index_.end() ? nullptr : found->second;
  }
  const ChecksummedBytes& at(std::string_view entry) const {
    const ChecksummedBytes* const found = find(entry);
    if (!found)
      fail(Fault::file, name_, ": expected the entry ", printable(cat(folder_, entry)),
           " of a PyTorch file, found none");
    return *found;
  }

 private:
  const std::string& name_;
  std::string folder_;
  std::vector<ChecksummedBytes> entries_, unverified_;
  std::unordered_map<std::string, const ChecksummedBytes*> index_;
};

void check_byte_order(const Archive& archive, const std::string& name) {
  const ChecksummedBytes* const entry = archive.find("byteorder");
  if (!entry) return;  // older files have no such entry and are little-endian
  const std::string_view order{reinterpret_cast<const char*>(entry->bytes.data()),
                               entry->bytes.size()};
  if (order != "little")
    fail(Fault::file, name, ": at byte ", entry->offset, ": expected byte order 'little', found ",
         printable(order));
}

// Strides of dimensions of size 1 are meaningless; they become the contiguous ones.
Shape normal_strides(const Shape& shape, const std::vector<int64_t>& stride) {
  Shape out = contiguous_strides(shape);
  if (shape.elements() == 0) return out;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] != 1) out[i] = stride[size_t(i)];
  return out;
}

// The offset of the last element from the first, in elements.
uint64_t last_offset(const Shape& shape, const Shape& stride, std::string_view what) {
  uint64_t last = 0;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] > 1)
      last = checked_add(last, checked_multiply(uint64_t(shape[i] - 1), uint64_t(stride[i]), what),
                         what);
  return last;
}

StoredTensor locate(const PickledTensor& pickled, const Archive& archive, const std::string& name) {
  const std::string key(pickled.storage.substr(0, 32));
  if (key.empty() || key.size() != pickled.storage.size() ||
      key.find_first_not_of("0123456789") != key.npos)
    fail(Fault::file, name, ": tensor ", printable(pickled.name),
         ": expected a number as the storage's key, found ", printable(pickled.storage));
  const ChecksummedBytes& entry = archive.at(cat("data/", key));
  const std::string what =
      cat(name, ": tensor ", printable(pickled.name), " at byte ", entry.offset);
  if (pickled.storage_bytes != entry.bytes.size())
    fail(Fault::file, what, ": expected a storage of ", pickled.storage_bytes, " bytes, found ",
         entry.bytes.size());
  const auto negative = [](int64_t number) { return number < 0; };
  if (pickled.offset < 0 || pickled.size.size() != pickled.stride.size() ||
      std::any_of(pickled.size.begin(), pickled.size.end(), negative) ||
      std::any_of(pickled.stride.begin(), pickled.stride.end(), negative))
    fail(Fault::file, what, ": expected an offset, sizes and strides that are not negative and ",
         "as many strides as sizes");
  StoredTensor tensor;
  tensor.name = pickled.name;
  tensor.type = pickled.type;
  tensor.shape =
      checked_shape(std::vector<uint64_t>(pickled.size.begin(), pickled.size.end()), what);
  tensor.stride = normal_strides(tensor.shape, pickled.stride);
  const uint64_t item = uint64_t(layout_of(pickled.type).bytes);
  const uint64_t count = entry.bytes.size() / item, first = uint64_t(pickled.offset);
  const uint64_t elements = uint64_t(tensor.shape.elements());
  const uint64_t end =
      elements == 0
          ? first
          : checked_add(checked_add(first, last_offset(tensor.shape, tensor.stride, what), what), 1,
                        what);
  if (end > count || elements > count)
    fail(Fault::file, what, ": expected shape ", tensor.shape, " with strides ", tensor.stride,
         " to lie in a storage of ", count, " elements, found ", elements, " up to ", end);
  tensor.offset = entry.offset + first * item;
  tensor.bytes = entry.bytes.subspan(first * item, (end - first) * item);
  return tensor;
}

TensorFile read_unverified(std::span<const std::byte> bytes, const std::string& name) {
  const Archive archive(bytes, name);
  check_byte_order(archive, name);
  const ChecksummedBytes& pickle = archive.at("data.pkl");
  if (pickle.bytes.size() > max_pickle)
    fail(Fault::file, name, ": at byte ", pickle.offset, ": expected a pickle of at most ",
         max_pickle, " bytes, found ", pickle.bytes.size());
  TensorFile file("pth", name);
  for (const PickledTensor& tensor : read_pickle(pickle.bytes, cat(name, ": ", pickle.name)))
    file.add(locate(tensor, archive, name));
  for (const ChecksummedBytes& entry : archive.unverified()) file.add(entry);
  return file;
}

}  // namespace

TensorFile read_pth(std::span<const std::byte> bytes, const std::string& name) {
  TensorFile file = read_unverified(bytes, name);
  check_contents(file, Checksums::verify, NonFiniteWeights::allow);
  return file;
}

TensorFile open_pth(const fs::path& path) { return open_mapped(path, read_pth); }
TensorFile open_pth_unverified(const fs::path& path) { return open_mapped(path, read_unverified); }

}  // namespace deltasane
