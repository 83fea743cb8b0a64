#include "format/npy/npy.h"

namespace deltasane {
namespace {

constexpr size_t header_size = 192;  // enough for six dimensions of any size; a multiple of 64

}  // namespace

NpyWriter::NpyWriter(const fs::path& path, StoredType type, const Shape& row)
    : file_(path), type_(type), row_(row) {
  require(type == StoredType::f32 || type == StoredType::i32, "NpyWriter writes f32 or i32");
  require(row.rank() < max_rank && row.elements() > 0, "a row of an array has elements");
  file_.write(header());
}

std::string NpyWriter::header() const {
  std::string text = cat("{'descr': '", type_ == StoredType::f32 ? "<f4" : "<i4",
                         "', 'fortran_order': False, 'shape': (", rows(), ",");
  for (int i = 0; i < row_.rank(); ++i) text += cat(i ? ", " : " ", row_[i]);
  text += "), }";
  constexpr size_t before = 10;
  text.append(header_size - before - text.size() - 1, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += char(text.size() & 0xff);
  out += char(text.size() >> 8);
  return out + text;
}

void NpyWriter::append(std::span<const float> elements) {
  require(type_ == StoredType::f32, "floats go into an array of f32");
  file_.write(std::as_bytes(elements));
  elements_ += elements.size();
}

void NpyWriter::append(std::span<const int32_t> elements) {
  require(type_ == StoredType::i32, "integers go into an array of i32");
  file_.write(std::as_bytes(elements));
  elements_ += elements.size();
}

void NpyWriter::commit() {
  require(elements_ % uint64_t(row_.elements()) == 0, "an array ends with a whole row");
  const std::string text = header();
  file_.overwrite(0, std::as_bytes(std::span(text)));
  file_.commit();
}

}  // namespace deltasane
