#include <algorithm>
#include <bit>
#include <optional>

#include "base/checked.h"
#include "base/printable.h"
#include "base/io/byte_reader.h"
#include "format/gguf/gguf.h"
#include "format/gguf/gguf_types.h"

namespace deltasane {
namespace {

constexpr uint64_t max_entries = 100'000, max_key = 65'535, max_text = uint64_t{16} << 20,
                   max_tokens = uint64_t{1} << 20, max_integers = uint64_t{1} << 22,
                   max_alignment = uint64_t{1} << 20;
constexpr uint32_t max_dimensions = 4;

constexpr std::array<std::string_view, 13> kind_names{
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name)
      : in_(bytes, name), name_(name), bytes_(bytes), file_("gguf", name) {}

  TensorFile read() {
    if (in_.number<uint32_t>("magic") != gguf_magic)
      fail(Fault::file, name_, ": at byte 0: expected a GGUF file, found another");
    const auto version = in_.number<uint32_t>("version");
    if (version != 2 && version != 3)
      fail(Fault::file, name_, ": at byte 4: expected GGUF version 2 or 3, found ",
           (version & 0xffff) == 0 ? "a big-endian file" : cat("version ", version));
    const auto tensors = in_.number<uint64_t>("tensor count");
    const auto entries = in_.number<uint64_t>("entry count");
    if (tensors > max_tensors || entries > max_entries)
      in_.reject("expected at most ", max_tensors, " tensors and ", max_entries, " entries, found ",
                 tensors, " and ", entries);
    for (uint64_t i = 0; i < entries; ++i) read_entry();
    std::vector<StoredTensor> records;
    for (uint64_t i = 0; i < tensors; ++i) records.push_back(read_record());
    place(records);
    return std::move(file_);
  }

 private:
  std::string_view text(uint64_t longest, std::string_view what) {
    const auto length = in_.number<uint64_t>(what);
    if (length > longest)
      in_.reject(what, ": expected at most ", longest, " bytes, found ", length);
    return in_.text(length, what);
  }

  GgufKind kind(std::string_view what) {
    const auto number = in_.number<uint32_t>(what);
    if (number >= kind_names.size())
      in_.reject(what, ": expected a value type below ", kind_names.size(), ", found ", number);
    return GgufKind(number);
  }

  std::string scalar(GgufKind kind, std::string_view what) {
    switch (kind) {
      case GgufKind::u8:
        return cat(int(in_.number<uint8_t>(what)));
      case GgufKind::i8:
        return cat(int(in_.number<int8_t>(what)));
      case GgufKind::u16:
        return cat(in_.number<uint16_t>(what));
      case GgufKind::i16:
        return cat(in_.number<int16_t>(what));
      case GgufKind::u32:
        return cat(in_.number<uint32_t>(what));
      case GgufKind::i32:
        return cat(in_.number<int32_t>(what));
      case GgufKind::f32:
        return cat(in_.number<float>(what));
      case GgufKind::boolean:
        return cat(in_.number<uint8_t>(what) != 0);
      case GgufKind::text:
        return std::string(text(max_text, what));
      case GgufKind::u64:
        return cat(in_.number<uint64_t>(what));
      case GgufKind::i64:
        return cat(in_.number<int64_t>(what));
      case GgufKind::f64:
        return cat(in_.number<double>(what));
      case GgufKind::array:
        break;
    }
    in_.reject(what, ": expected no array inside an array");
  }

  static bool is_integer(GgufKind kind) {
    return kind != GgufKind::f32 && kind != GgufKind::f64 && kind != GgufKind::u64 &&
           kind != GgufKind::text && kind != GgufKind::array;
  }

  int64_t integer(GgufKind kind, std::string_view what) {
    switch (kind) {
      case GgufKind::u8:
      case GgufKind::boolean:
        return in_.number<uint8_t>(what);
      case GgufKind::i8:
        return in_.number<int8_t>(what);
      case GgufKind::u16:
        return in_.number<uint16_t>(what);
      case GgufKind::i16:
        return in_.number<int16_t>(what);
      case GgufKind::u32:
        return in_.number<uint32_t>(what);
      case GgufKind::i32:
        return in_.number<int32_t>(what);
      default:
        return in_.number<int64_t>(what);
    }
  }

  static uint64_t least_size(GgufKind kind) {
    constexpr std::array<uint64_t, 13> sizes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
    return sizes[size_t(kind)];
  }

  std::string array(std::string_view key) {
    const GgufKind element = kind(key);
    const auto count = in_.number<uint64_t>(key);
    if (element == GgufKind::array) in_.reject(key, ": expected no array inside an array");
    if (count > in_.remaining() / least_size(element))
      in_.reject(printable(key), ": expected ", count, " elements, found ", in_.remaining(),
                 " bytes");
    if (element == GgufKind::text) {
      const bool tokens = key == gguf_tokens_key;
      if (tokens && count > max_tokens)
        in_.reject(key, ": expected at most ", max_tokens, " tokens, found ", count);
      std::vector<std::string> texts;
      for (uint64_t i = 0; i < count; ++i) texts.emplace_back(text(max_text, key));
      if (tokens)
        file_.set_vocabulary(std::move(texts));
      else
        file_.set_texts(std::string(key), std::move(texts));
    } else if (is_integer(element) && count <= max_integers) {
      std::vector<int64_t> integers(count);
      for (int64_t& value : integers) value = integer(element, key);
      file_.set_integers(std::string(key), std::move(integers));
    } else if (element == GgufKind::f32 && count <= max_integers) {
      std::vector<float> reals(count);
      for (float& value : reals) value = in_.number<float>(key);
      file_.set_reals(std::string(key), std::move(reals));
    } else {
      in_.take(count * least_size(element), key);
    }
    return cat("[", kind_names[size_t(element)], " x ", count, "]");
  }

  void read_entry() {
    const std::string key(text(max_key, "key"));
    const GgufKind what = kind(printable(key));
    if (file_.metadata().contains(key))
      in_.reject("key ", printable(key), ": expected it once, found it twice");
    if (key == "general.alignment") {
      if (what != GgufKind::u32) in_.reject("general.alignment: expected a u32");
      alignment_ = in_.number<uint32_t>("general.alignment");
      if (!std::has_single_bit(alignment_) || alignment_ > max_alignment)
        in_.reject("general.alignment: expected a power of two up to ", max_alignment, ", found ",
                   alignment_);
      file_.metadata()[key] = cat(alignment_);
    } else {
      file_.metadata()[key] = what == GgufKind::array ? array(key) : scalar(what, printable(key));
    }
  }

  StoredTensor read_record() {
    StoredTensor tensor;
    tensor.name = text(max_tensor_name, "tensor name");
    const auto rank = in_.number<uint32_t>("dimension count");
    if (rank > max_dimensions)
      in_.reject("tensor ", printable(tensor.name), ": expected at most ", max_dimensions,
                 " dimensions, found ", rank);
    std::array<uint64_t, max_dimensions> sizes{};
    for (uint32_t i = 0; i < rank; ++i) sizes[rank - 1 - i] = in_.number<uint64_t>("size");
    const std::string what =
        cat(name_, ": at byte ", in_.offset(), ": tensor ", printable(tensor.name));
    tensor.shape = checked_shape(std::span(sizes).first(rank), what);
    tensor.stride = contiguous_strides(tensor.shape);
    const auto number = in_.number<uint32_t>("tensor type");
    tensor.type = StoredType::foreign;
    tensor.foreign_type = cat("ggml type ", number);
    for (const GgmlType& known : ggml_types)
      if (known.number == number) {
        tensor.type = known.type;
        tensor.foreign_type = known.type == StoredType::foreign ? known.name : "";
      }
    const int64_t block = layout_of(tensor.type).block;
    if (block > 1 && (rank == 0 || tensor.shape[int(rank) - 1] % block != 0))
      fail(Fault::file, what, ": expected rows of whole blocks of ", block, ", found shape ",
           tensor.shape);
    tensor.offset = in_.number<uint64_t>("tensor offset");
    return tensor;
  }

  // In bytes; none for a type that nobody here knows.
  static std::optional<uint64_t> size_of(const StoredTensor& tensor, const std::string& what) {
    const auto elements = uint64_t(tensor.shape.elements());
    if (tensor.type != StoredType::foreign) return stored_bytes(tensor.type, elements, what);
    for (const GgmlType& known : ggml_types) {
      if (known.type != StoredType::foreign || known.name != tensor.foreign_type) continue;
      if (elements % known.block != 0)
        fail(Fault::file, what, ": expected whole blocks of ", known.block, ", found shape ",
             tensor.shape);
      return checked_multiply(elements / known.block, known.bytes, what);
    }
    return std::nullopt;
  }

  uint64_t aligned(uint64_t offset) const {
    return checked_add(offset, alignment_ - 1, name_) / alignment_ * alignment_;
  }

  // Zeros up to `end`, which is where the next thing begins.
  void check_padding(uint64_t begin, uint64_t end) const {
    const auto padding = bytes_.subspan(begin, end - begin);
    const auto found = std::ranges::find_if(padding, [](std::byte b) { return b != std::byte{0}; });
    if (found != padding.end())
      fail(Fault::file, name_, ": at byte ", begin + uint64_t(found - padding.begin()),
           ": expected a zero up to the next multiple of ", alignment_, ", found ", int(*found));
  }

  // Offsets count from the first aligned byte after the records. In their order the tensors cover
  // all that follows, but for the zeros that align each.
  void place(std::vector<StoredTensor>& tensors) {
    const uint64_t start = aligned(in_.offset());
    std::vector<StoredTensor*> order;
    for (StoredTensor& tensor : tensors) {
      const std::string what = cat(name_, ": tensor ", printable(tensor.name));
      if (tensor.offset % alignment_ != 0)
        fail(Fault::file, what, ": expected an offset that is a multiple of ", alignment_,
             ", found ", tensor.offset);
      tensor.offset = checked_add(start, tensor.offset, what);
      order.push_back(&tensor);
    }
    std::ranges::stable_sort(order, {}, [](const StoredTensor* tensor) {
      return std::pair(tensor->offset, tensor->shape.elements());
    });
    uint64_t end = in_.offset();  // of what was placed so far
    for (size_t i = 0; i < order.size(); ++i) {
      StoredTensor& tensor = *order[i];
      const std::string what = cat(name_, ": tensor ", printable(tensor.name));
      if (tensor.offset != aligned(end))
        fail(Fault::file, what, ": expected it at byte ", aligned(end), ", where ",
             i == 0 ? "the records end" : cat("tensor ", printable(order[i - 1]->name), " ends"),
             ", found byte ", tensor.offset);
      const uint64_t left = bytes_.size() - std::min(tensor.offset, bytes_.size());
      const std::optional<uint64_t> known = size_of(tensor, what);
      // A type that nobody here knows reaches up to the next tensor.
      const uint64_t next = i + 1 < order.size() ? order[i + 1]->offset : bytes_.size();
      const uint64_t size = known ? *known : next - std::min(tensor.offset, next);
      if (tensor.offset > bytes_.size() || size > left)
        fail(Fault::file, what, " at byte ", tensor.offset, ": expected ", size, " bytes, found ",
             left);
      check_padding(end, tensor.offset);
      tensor.bytes = bytes_.subspan(tensor.offset, known ? size : 0);
      end = tensor.offset + size;
    }
    if (end < bytes_.size()) {
      if (aligned(end) < bytes_.size())
        fail(Fault::file, name_, ": at byte ", end, ": expected the end of the file, found ",
             bytes_.size() - end, " bytes more");
      check_padding(end, bytes_.size());
    }
    for (StoredTensor& tensor : tensors) file_.add(std::move(tensor));
  }

  ByteReader in_;
  const std::string& name_;
  std::span<const std::byte> bytes_;
  TensorFile file_;
  uint64_t alignment_ = gguf_alignment;
};

}  // namespace

TensorFile read_gguf(std::span<const std::byte> bytes, const std::string& name) {
  return Reader(bytes, name).read();
}

TensorFile open_gguf(const fs::path& path) { return open_mapped(path, read_gguf); }

}  // namespace deltasane
