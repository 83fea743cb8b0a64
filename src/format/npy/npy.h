// NumPy's .npy: one array. The reader supports little-endian numbers in C order only (no objects,
// no big-endian, no Fortran order); the file must end with the array.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "format/stored_type.h"
#include "tensor/view.h"

namespace deltasane {

struct NpyArray {
  std::string path;
  StoredType type = StoredType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const MappedFile> file;  // owns `bytes`; null when read from memory

  // Elements [first, first + out.size()) in C order. Integers must be stored as integers and fit
  // into 32 bits; otherwise the file is in error.
  void read(int64_t first, std::span<int32_t> out) const;
  void read(int64_t first, std::span<float> out) const;
};

NpyArray read_npy(std::span<const std::byte> bytes, const std::string& name);
NpyArray open_npy(const fs::path& path);

// Writes an array row by row; the number of rows is known only at commit(), which replaces the file
// atomically. `row` is the shape of one row, {} for a one-dimensional array.
class NpyWriter {
 public:
  NpyWriter(const fs::path& path, StoredType type, const Shape& row);  // type f32 or i32

  void append(std::span<const float> elements);
  void append(std::span<const int32_t> elements);
  int64_t rows() const { return int64_t(elements_) / row_.elements(); }
  void commit();

 private:
  std::string header() const;
  AtomicFile file_;
  StoredType type_;
  Shape row_;
  uint64_t elements_ = 0;
};

}  // namespace deltasane
