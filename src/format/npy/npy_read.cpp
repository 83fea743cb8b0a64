#include <array>
#include <charconv>
#include <utility>

#include "base/io/byte_reader.h"
#include "base/printable.h"
#include "format/dequantize.h"
#include "format/npy/npy.h"
#include "format/tensor_file.h"

namespace deltasane {
namespace {

constexpr uint64_t max_header = 10'000;

constexpr std::array<std::pair<std::string_view, StoredType>, 14> types{{
    {"<f4", StoredType::f32},
    {"<f2", StoredType::f16},
    {"<f8", StoredType::f64},
    {"<i4", StoredType::i32},
    {"<i8", StoredType::i64},
    {"<i2", StoredType::i16},
    {"|i1", StoredType::i8},
    {"<u2", StoredType::u16},
    {"<u4", StoredType::u32},
    {"<u8", StoredType::u64},
    {"|u1", StoredType::u8},
    {"|b1", StoredType::boolean},
    {"<u1", StoredType::u8},
    {"<i1", StoredType::i8},
}};

// The header: a Python dictionary literal with exactly the keys descr, fortran_order and shape.
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  void read(NpyArray& array) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = text();
      expect(':');
      if (key == "descr" && !descr_) {
        array.type = type_named(text());
        descr_ = true;
      } else if (key == "fortran_order" && !order_) {
        if (!word("False")) reject("expected C order (fortran_order False)");
        order_ = true;
      } else if (key == "shape" && !shape_) {
        array.shape = shape();
        shape_ = true;
      } else {
        reject(cat("expected descr, fortran_order and shape once each, found ", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr_ || !order_ || !shape_) reject("expected descr, fortran_order and shape");
    skip_spaces();
    if (!rest_.empty()) reject("expected nothing after the dictionary");
  }

 private:
  [[noreturn]] void reject(std::string_view why) const {
    fail(Fault::file, file_, ": array header: ", why);
  }
  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool word(std::string_view wanted) {
    skip_spaces();
    if (!rest_.starts_with(wanted)) return false;
    rest_.remove_prefix(wanted.size());
    return true;
  }
  bool accept(char wanted) { return word({&wanted, 1}); }
  void expect(char wanted) {
    if (!accept(wanted))
      reject(cat("expected '", wanted, "', found ", printable(rest_.substr(0, 8))));
  }
  std::string_view text() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const size_t end = rest_.find(quote);
    if (end == rest_.npos) reject("expected the end of a string");
    const std::string_view out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return out;
  }
  StoredType type_named(std::string_view name) const {
    for (const auto& [known, type] : types)
      if (known == name) return type;
    reject(cat("expected little-endian numbers such as <f4 or <i4, found ", printable(name)));
  }
  Shape shape() {
    expect('(');
    std::vector<uint64_t> sizes;
    while (!accept(')')) {
      skip_spaces();
      uint64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc()) reject("expected a size");
      rest_.remove_prefix(size_t(end - rest_.data()));
      sizes.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return checked_shape(sizes, cat(file_, ": array header"));
  }

  std::string_view rest_;
  const std::string& file_;
  bool descr_ = false, order_ = false, shape_ = false;
};

template <class T>
void copy_integers(const NpyArray& array, int64_t first, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, array.bytes.data() + (size_t(first) + i) * sizeof(T), sizeof(T));
    if (!std::in_range<int32_t>(value))
      fail(Fault::file, array.path, ": element ", first + int64_t(i),
           ": expected a number of 32 bits, found ", value);
    out[i] = int32_t(value);
  }
}

void check_range(const NpyArray& array, int64_t first, size_t count) {
  require(first >= 0 && first <= array.shape.elements() &&
              int64_t(count) <= array.shape.elements() - first,
          "NpyArray::read stays inside the array");
}

}  // namespace

NpyArray read_npy(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader in(bytes, name);
  if (in.text(6, "magic") != "\x93NUMPY")
    fail(Fault::file, name, ": at byte 0: expected a NumPy array (.npy), found another file");
  const auto version = in.number<uint8_t>("version");
  in.number<uint8_t>("version");
  if (version < 1 || version > 3)
    in.reject("expected version 1, 2 or 3 of the array format, found ", int(version));
  const uint64_t length = version == 1 ? uint64_t{in.number<uint16_t>("header length")}
                                       : uint64_t{in.number<uint32_t>("header length")};
  if (length > max_header)
    in.reject("expected a header of at most ", max_header, " bytes, found ", length);
  NpyArray array;
  array.path = name;
  NpyHeader(in.text(length, "header"), name).read(array);
  const uint64_t size = stored_bytes(array.type, uint64_t(array.shape.elements()), name);
  if (size != in.remaining())
    in.reject("expected ", size, " bytes for ", array.shape, " of ", name_of(array.type),
              ", found ", in.remaining());
  array.bytes = in.take(size, "elements");
  return array;
}

NpyArray open_npy(const fs::path& path) {
  const auto map = std::make_shared<const MappedFile>(path);
  NpyArray array = read_npy(map->bytes(), path.string());
  array.file = map;
  return array;
}

void NpyArray::read(int64_t first, std::span<int32_t> out) const {
  check_range(*this, first, out.size());
  switch (type) {
    case StoredType::i64:
      return copy_integers<int64_t>(*this, first, out);
    case StoredType::i32:
      return copy_integers<int32_t>(*this, first, out);
    case StoredType::i16:
      return copy_integers<int16_t>(*this, first, out);
    case StoredType::i8:
      return copy_integers<int8_t>(*this, first, out);
    case StoredType::u64:
      return copy_integers<uint64_t>(*this, first, out);
    case StoredType::u32:
      return copy_integers<uint32_t>(*this, first, out);
    case StoredType::u16:
      return copy_integers<uint16_t>(*this, first, out);
    case StoredType::u8:
      return copy_integers<uint8_t>(*this, first, out);
    default:
      fail(Fault::file, path, ": expected an array of integers, found ", name_of(type));
  }
}

void NpyArray::read(int64_t first, std::span<float> out) const {
  check_range(*this, first, out.size());
  const size_t item = size_t(layout_of(type).bytes);
  dequantize_to_float(type, bytes.subspan(size_t(first) * item, out.size() * item), out);
}

}  // namespace deltasane
