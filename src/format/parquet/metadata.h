// What a Parquet file says about itself: the footer and the headers of pages, as parquet.thrift of
// the Apache project defines them. Numbers are checked for what they are used for, nothing more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/io/byte_reader.h"
#include "format/codec/codec.h"

namespace deltasane::parquet {

enum class PhysicalType { boolean, int32, int64, int96, real32, real64, bytes, fixed_bytes };
enum class Repetition { required, optional, repeated };

enum class Encoding {
  plain = 0,
  plain_dictionary = 2,
  rle = 3,
  bit_packed = 4,
  delta_integers = 5,
  delta_lengths = 6,
  delta_bytes = 7,
  rle_dictionary = 8,
  byte_stream_split = 9,
};

// What a column means. `other` types are named in `annotation`.
enum class Meaning { plain, text, list, map, unsigned_integer, other };

struct SchemaElement {
  std::string name;
  std::optional<PhysicalType> type;  // of a leaf
  Repetition repetition = Repetition::required;
  int32_t children = 0;
  Meaning meaning = Meaning::plain;
  std::string_view annotation;  // for Meaning::other: "timestamp" and the like
};

struct ColumnChunk {
  PhysicalType type{};
  int32_t codec = 0;  // by its number in the file
  uint64_t entries = 0;
  uint64_t begin = 0, size = 0;  // bytes of the file, dictionary and pages
};

struct RowGroup {
  uint64_t rows = 0;
  std::vector<ColumnChunk> chunks;  // one per leaf
};

struct FileMetadata {
  std::vector<SchemaElement> schema;
  uint64_t rows = 0;
  std::vector<RowGroup> groups;
};

// Fails where the file is not Parquet, is encrypted, or says what cannot be.
FileMetadata read_metadata(std::span<const std::byte> file, const std::string& name);

enum class PageKind { data, index, dictionary, data_v2 };

struct PageHeader {
  PageKind kind{};
  uint64_t size = 0, packed_size = 0;
  std::optional<uint32_t> checksum;
  uint64_t entries = 0;
  Encoding encoding{};
  Encoding definition_encoding = Encoding::rle, repetition_encoding = Encoding::rle;
  // Of data_v2: the bytes of levels, which are not compressed, and whether the values are.
  uint64_t definition_bytes = 0, repetition_bytes = 0;
  bool compressed = true;
};

PageHeader read_page_header(ByteReader& in);

// Fails with the codec's name where there is none for it.
Codec codec_of(const ColumnChunk& chunk, std::string_view name);
std::string_view name_of(PhysicalType type);
std::string name_of(Encoding encoding);

}  // namespace deltasane::parquet
