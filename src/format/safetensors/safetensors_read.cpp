#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/printable.h"
#include "base/io/byte_reader.h"
#include "format/json_walk.h"
#include "format/safetensors/safetensors.h"

namespace deltasane {
namespace {

constexpr uint64_t max_header = 100'000'000;

struct Named {
  std::string_view name;
  StoredType type;
  uint64_t bits;
};
constexpr std::array<Named, 22> dtypes{{
    {"F32", StoredType::f32, 32},
    {"F16", StoredType::f16, 16},
    {"BF16", StoredType::bf16, 16},
    {"F64", StoredType::f64, 64},
    {"I64", StoredType::i64, 64},
    {"I32", StoredType::i32, 32},
    {"I16", StoredType::i16, 16},
    {"I8", StoredType::i8, 8},
    {"U64", StoredType::u64, 64},
    {"U32", StoredType::u32, 32},
    {"U16", StoredType::u16, 16},
    {"U8", StoredType::u8, 8},
    {"BOOL", StoredType::boolean, 8},
    {"C64", StoredType::foreign, 64},
    {"F8_E5M2", StoredType::foreign, 8},
    {"F8_E4M3", StoredType::foreign, 8},
    {"F8_E8M0", StoredType::foreign, 8},
    {"F8_E4M3FNUZ", StoredType::foreign, 8},
    {"F8_E5M2FNUZ", StoredType::foreign, 8},
    {"F6_E2M3", StoredType::foreign, 6},
    {"F6_E3M2", StoredType::foreign, 6},
    {"F4", StoredType::foreign, 4},
}};

// One tensor of the header during parsing.
struct Entry {
  std::string name;
  const Named* dtype = nullptr;
  std::vector<uint64_t> shape, offsets;
  bool has_shape = false, has_offsets = false;
};

class SafetensorsHeader {
 public:
  SafetensorsHeader(std::string_view file, Metadata& metadata) : file_(file), metadata_(metadata) {}

  std::vector<Entry> entries;

  void visit(const std::vector<std::string>& path, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    if (path.empty()) {
      if (value.kind != Kind::object && value.kind != Kind::end)
        fail(Fault::file, file_, ": at byte 8: expected a JSON object as the header");
    } else if (path[0] == "__metadata__") {
      visit_metadata(path, value);
    } else if (path.size() == 1) {
      if (value.kind == Kind::object) return begin(path[0]);
      if (value.kind == Kind::end) return finish();
      reject(path[0], "expected an object with dtype, shape and data_offsets");
    } else {
      member(path, value);
    }
  }

 private:
  [[noreturn]] void reject(std::string_view tensor, std::string_view why) const {
    fail(Fault::file, file_, ": tensor ", printable(tensor), " in the header: ", why);
  }

  void visit_metadata(const std::vector<std::string>& path, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    const bool outer = path.size() == 1 && (value.kind == Kind::object || value.kind == Kind::end);
    if (outer) return;
    if (path.size() != 2 || value.kind != Kind::text)
      reject("__metadata__", "expected an object of strings");
    metadata_.emplace(path[1], value.text);
  }

  void begin(const std::string& name) {
    if (entries.size() >= max_tensors)
      fail(Fault::file, file_, ": expected at most ", max_tensors, " tensors, found more");
    entries.push_back({.name = name, .shape = {}, .offsets = {}});
  }

  void member(const std::vector<std::string>& path, const JsonValue& value) {
    using Kind = JsonValue::Kind;
    Entry& entry = entries.back();
    if (path.size() == 2 && path[1] == "dtype" && value.kind == Kind::text)
      return set_dtype(entry, value.text);
    const bool shape = path[1] == "shape", offsets = path[1] == "data_offsets";
    if (path.size() != 2 || (!shape && !offsets))
      reject(path[0], "expected only dtype, shape and data_offsets");
    bool& begun = shape ? entry.has_shape : entry.has_offsets;
    std::vector<uint64_t>& list = shape ? entry.shape : entry.offsets;
    if (value.kind == Kind::array && !begun) {
      begun = true;
    } else if (value.kind == Kind::natural && begun) {
      if (list.size() == size_t(max_rank))
        reject(path[0], cat("expected at most ", max_rank, " dimensions"));
      list.push_back(value.natural);
    } else if (value.kind != Kind::end) {
      reject(path[0], cat("expected ", path[1], " to be a list of numbers that are not negative"));
    }
  }

  void set_dtype(Entry& entry, std::string_view name) {
    for (const Named& known : dtypes)
      if (known.name == name) entry.dtype = &known;
    if (!entry.dtype)
      reject(entry.name,
             cat("expected a known dtype such as F32 or BF16, found ", printable(name)));
  }

  void finish() {
    const Entry& entry = entries.back();
    if (!entry.dtype) reject(entry.name, "expected a dtype, found none");
    if (!entry.has_shape) reject(entry.name, "expected a shape, found none");
    if (entry.offsets.size() != 2) reject(entry.name, "expected data_offsets of two numbers");
  }

  std::string_view file_;
  Metadata& metadata_;
};

// Offsets must tile the space after the header: begin at 0, no hole, no overlap, end with the file.
void check_tiling(const std::vector<Entry>& entries, uint64_t base, uint64_t size,
                  const std::string& file) {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return a->offsets < b->offsets; });
  uint64_t expected = 0;
  for (const Entry* entry : order) {
    const uint64_t begin = entry->offsets[0], end = entry->offsets[1];
    if (begin != expected || end < begin || end > size - base)
      fail(Fault::file, file, ": tensor ", printable(entry->name), " at byte ", base, " + ", begin,
           ": expected it to begin at offset ", expected, " and to end by ", size - base,
           ", found offsets ", begin, " to ", end);
    expected = end;
  }
  if (expected != size - base)
    fail(Fault::file, file, ": at byte ", base + expected, ": expected the end of the file, found ",
         size - base - expected, " bytes more");
}

StoredTensor tensor_of(const Entry& entry, std::span<const std::byte> bytes, uint64_t base,
                       const std::string& file) {
  StoredTensor tensor;
  tensor.name = entry.name;
  tensor.type = entry.dtype->type;
  if (tensor.type == StoredType::foreign) tensor.foreign_type = entry.dtype->name;
  tensor.offset = base + entry.offsets[0];
  const uint64_t size = entry.offsets[1] - entry.offsets[0];
  const std::string what =
      cat(file, ": tensor ", printable(entry.name), " at byte ", tensor.offset);
  tensor.shape = checked_shape(entry.shape, what);
  tensor.stride = contiguous_strides(tensor.shape);
  const uint64_t bits =
      checked_multiply(uint64_t(tensor.shape.elements()), entry.dtype->bits, what);
  if (bits % 8 != 0 || bits / 8 != size)
    fail(Fault::file, what, ": expected ", bits, " bits for ", tensor.shape, " of ",
         entry.dtype->name, ", found ", size, " bytes");
  tensor.bytes = bytes.subspan(tensor.offset, size);
  return tensor;
}

}  // namespace

TensorFile read_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  const uint64_t length = reader.number<uint64_t>("header length");
  if (length > max_header)
    fail(Fault::file, name, ": at byte 0: expected a header of at most ", max_header,
         " bytes, found ", length);
  const std::string_view text = reader.text(length, "header");
  if (!text.starts_with('{'))
    fail(Fault::file, name, ": at byte 8: expected the header to begin with '{'");
  TensorFile file("safetensors", name);
  SafetensorsHeader header(name, file.metadata());
  walk_json(text, cat(name, ": header"), {.depth = 4},
            [&](const auto& path, const JsonValue& value) { header.visit(path, value); });
  check_tiling(header.entries, reader.offset(), bytes.size(), name);
  for (const Entry& entry : header.entries)
    file.add(tensor_of(entry, bytes, reader.offset(), name));
  return file;
}

TensorFile open_safetensors(const fs::path& path) { return open_mapped(path, read_safetensors); }

}  // namespace deltasane
