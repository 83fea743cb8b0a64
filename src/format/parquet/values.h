// The values of one page, in any encoding, one after another.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "format/parquet/delta.h"
#include "format/parquet/metadata.h"

namespace deltasane::parquet {

// Which member is used follows from the column's type.
struct Value {
  int64_t integer = 0;  // boolean, int32, int64
  double real = 0;
  std::string_view text;  // until the next value is read
};

// Values that stand in full, or the fixed order of a dictionary.
class PlainValues {
 public:
  PlainValues(std::span<const std::byte> bytes, PhysicalType type, std::string_view name)
      : in_(bytes, name), type_(type) {}
  Value next();

 private:
  ByteReader in_;
  PhysicalType type_;
  uint8_t bits_ = 0;
  int bits_left_ = 0;
};

// DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes.
class DeltaTexts {
 public:
  DeltaTexts(std::span<const std::byte> bytes, std::string_view name, uint64_t most)
      : lengths_(bytes, name, most), in_(lengths_.rest(), name) {}
  Value next();
  // The bytes behind the lengths.
  ByteReader& in() { return in_; }

 private:
  DeltaReader lengths_;
  ByteReader in_;
};

// DELTA_BYTE_ARRAY: how much of the value before is repeated, and what follows.
class DeltaPrefixes {
 public:
  DeltaPrefixes(std::span<const std::byte> bytes, std::string_view name, uint64_t most)
      : prefixes_(bytes, name, most), suffixes_(prefixes_.rest(), name, most) {}
  Value next();

 private:
  DeltaReader prefixes_;
  DeltaTexts suffixes_;
  std::string text_;
};

struct Dictionary {
  std::vector<Value> values;
  std::vector<std::byte> bytes;  // which the values may point to
};

class PageValues {
 public:
  // `bytes`, `dictionary` and `name` must outlive it. Fails with the encoding's name where there
  // is no decoder for it. A page of `entries` has no more values.
  PageValues(std::span<const std::byte> bytes, PhysicalType type, Encoding encoding,
             uint64_t entries, const Dictionary* dictionary, std::string_view name);
  Value next();

 private:
  using Decoder = std::variant<PlainValues, RleReader, DeltaReader, DeltaTexts, DeltaPrefixes>;
  static Decoder decoder(std::span<const std::byte> bytes, PhysicalType type, Encoding encoding,
                         uint64_t entries, const Dictionary* dictionary, std::string_view name);

  PhysicalType type_;
  const Dictionary* dictionary_ = nullptr;  // null: the decoder gives the values themselves
  std::string_view name_;
  Decoder decoder_;
};

}  // namespace deltasane::parquet
