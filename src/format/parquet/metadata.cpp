#include "format/parquet/metadata.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "format/parquet/thrift.h"

namespace deltasane::parquet {
namespace {

constexpr std::string_view magic = "PAR1", encrypted_magic = "PARE";
constexpr uint64_t max_page = uint64_t{1} << 28;  // bytes, unpacked
// A chunk, and a file, with more rows than this and that many per byte is a bomb.
constexpr uint64_t rows_for_nothing = uint64_t{1} << 22, rows_per_byte = uint64_t{1} << 12;

constexpr std::array<std::string_view, 8> type_names{
    "boolean", "int32",  "int64",      "int96",
    "float",   "double", "byte array", "fixed-length byte array"};
constexpr std::array<std::string_view, 10> encoding_names{"PLAIN",
                                                          "1",
                                                          "PLAIN_DICTIONARY",
                                                          "RLE",
                                                          "BIT_PACKED",
                                                          "DELTA_BINARY_PACKED",
                                                          "DELTA_LENGTH_BYTE_ARRAY",
                                                          "DELTA_BYTE_ARRAY",
                                                          "RLE_DICTIONARY",
                                                          "BYTE_STREAM_SPLIT"};

uint64_t natural(ThriftReader& thrift, ByteReader& in, std::string_view what) {
  const int64_t value = thrift.integer();
  if (value < 0) in.reject(what, ": expected a number of at least 0, found ", value);
  return uint64_t(value);
}

template <class Enum>
Enum choice(ThriftReader& thrift, ByteReader& in, Enum last, std::string_view what) {
  const int32_t value = thrift.integer32();
  if (value < 0 || value > int32_t(last))
    in.reject(what, ": expected a number from 0 to ", int32_t(last), ", found ", value);
  return Enum(value);
}

struct Annotation {
  Meaning meaning;
  std::string_view name;
};

// The older of two ways to say what a column means.
Annotation converted_annotation(int32_t number) {
  constexpr std::string_view others[] = {
      "decimal",  "date",     "time",     "time",     "timestamp", "timestamp",
      "unsigned", "unsigned", "unsigned", "unsigned", "integer",   "integer",
      "integer",  "integer",  "json",     "bson",     "interval"};
  switch (number) {
    case 0:   // UTF8
    case 4:   // ENUM
    case 19:  // JSON
      return {Meaning::text, ""};
    case 1:
    case 2:
      return {Meaning::map, ""};
    case 3:
      return {Meaning::list, ""};
    case 11:
    case 12:
    case 13:
    case 14:
      return {Meaning::unsigned_integer, ""};
    case 15:
    case 16:
    case 17:
    case 18:
      return {Meaning::plain, ""};
    default:
      if (number >= 5 && number <= 21) return {Meaning::other, others[number - 5]};
      return {Meaning::other, "unknown"};
  }
}

Annotation logical_annotation(int16_t number, ThriftReader& thrift) {
  switch (number) {
    case 1:   // STRING
    case 4:   // ENUM
    case 12:  // JSON
      return {Meaning::text, ""};
    case 2:
      return {Meaning::map, ""};
    case 3:
      return {Meaning::list, ""};
    case 10: {
      bool is_signed = true;
      thrift.structure([&](int16_t field) {
        if (field == 2) is_signed = thrift.boolean();
      });
      return {is_signed ? Meaning::plain : Meaning::unsigned_integer, ""};
    }
    case 11:  // UNKNOWN: only nulls
      return {Meaning::plain, ""};
    case 5:
      return {Meaning::other, "decimal"};
    case 6:
      return {Meaning::other, "date"};
    case 7:
      return {Meaning::other, "time"};
    case 8:
      return {Meaning::other, "timestamp"};
    case 13:
      return {Meaning::other, "bson"};
    case 14:
      return {Meaning::other, "uuid"};
    case 15:
      return {Meaning::other, "float16"};
    default:
      return {Meaning::other, "unknown"};
  }
}

SchemaElement read_element(ThriftReader& thrift, ByteReader& in) {
  SchemaElement element;
  std::optional<Annotation> converted, logical;
  thrift.structure([&](int16_t field) {
    switch (field) {
      case 1:
        element.type = choice(thrift, in, PhysicalType::fixed_bytes, "column type");
        break;
      case 3:
        element.repetition = choice(thrift, in, Repetition::repeated, "repetition");
        break;
      case 4:
        element.name = thrift.text();
        break;
      case 5:
        element.children = thrift.integer32();
        break;
      case 6:
        converted = converted_annotation(thrift.integer32());
        break;
      case 10:
        thrift.structure([&](int16_t kind) { logical = logical_annotation(kind, thrift); });
        break;
    }
  });
  const Annotation annotation = logical     ? *logical
                                : converted ? *converted
                                            : Annotation{Meaning::plain, ""};
  element.meaning = annotation.meaning;
  element.annotation = annotation.name;
  return element;
}

ColumnChunk read_chunk(ThriftReader& thrift, ByteReader& in, uint64_t file_size) {
  ColumnChunk chunk;
  bool found = false;
  uint64_t data = 0, dictionary = 0;
  thrift.structure([&](int16_t field) {
    if (field == 1) in.reject("expected columns in this file, found one in another file");
    if (field == 8 || field == 9) in.reject("expected columns in clear, found an encrypted one");
    if (field != 3) return;
    found = true;
    thrift.structure([&](int16_t part) {
      switch (part) {
        case 1:
          chunk.type = choice(thrift, in, PhysicalType::fixed_bytes, "column type");
          break;
        case 4:
          chunk.codec = thrift.integer32();
          break;
        case 5:
          chunk.entries = natural(thrift, in, "values of a column");
          break;
        case 7:
          chunk.size = natural(thrift, in, "size of a column");
          break;
        case 9:
          data = natural(thrift, in, "offset of a column");
          break;
        case 11:
          dictionary = natural(thrift, in, "offset of a dictionary");
          break;
      }
    });
  });
  if (!found) in.reject("expected a column's metadata, found none");
  chunk.begin = dictionary > 0 && (dictionary < data || data == 0) ? dictionary : data;
  if (chunk.begin < magic.size() || chunk.begin > file_size || chunk.size > file_size - chunk.begin)
    in.reject("expected a column inside of the file of ", file_size, " bytes, found ", chunk.size,
              " bytes at ", chunk.begin);
  if (chunk.entries > rows_for_nothing + rows_per_byte * chunk.size)
    in.reject("expected a column's values to take room, found ", chunk.entries, " in ", chunk.size,
              " bytes");
  return chunk;
}

RowGroup read_group(ThriftReader& thrift, ByteReader& in, uint64_t file_size) {
  RowGroup group;
  thrift.structure([&](int16_t field) {
    if (field == 1)
      thrift.list([&] { group.chunks.push_back(read_chunk(thrift, in, file_size)); });
    else if (field == 3)
      group.rows = natural(thrift, in, "rows of a group");
  });
  for (const ColumnChunk& chunk : group.chunks)
    if (chunk.entries < group.rows)
      in.reject("expected a value for each of ", group.rows, " rows of a group, found ",
                chunk.entries);
  return group;
}

void check_rows(const FileMetadata& metadata, const ByteReader& in, uint64_t file_size) {
  uint64_t rows = 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const RowGroup& group : metadata.groups) {
    rows = checked_add(rows, group.rows, in.name());
    for (const ColumnChunk& chunk : group.chunks)
      if (chunk.size > 0) ranges.emplace_back(chunk.begin, chunk.begin + chunk.size);
  }
  if (rows != metadata.rows)
    in.reject("expected ", metadata.rows, " rows in all groups, found ", rows);
  if (rows > rows_for_nothing + rows_per_byte * file_size)
    in.reject("expected rows to take room, found ", rows, " in ", file_size, " bytes");
  std::ranges::sort(ranges);
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      in.reject("expected columns that do not overlap, found two at byte ", ranges[i].first);
}

void read_values_header(ThriftReader& thrift, ByteReader& in, PageHeader& page) {
  thrift.structure([&](int16_t field) {
    if (field == 1) page.entries = natural(thrift, in, "values of a page");
    if (field == 2) page.encoding = choice(thrift, in, Encoding::byte_stream_split, "encoding");
    if (page.kind != PageKind::data) return;
    if (field == 3) page.definition_encoding = Encoding(thrift.integer32());
    if (field == 4) page.repetition_encoding = Encoding(thrift.integer32());
  });
}

void read_values_header_v2(ThriftReader& thrift, ByteReader& in, PageHeader& page) {
  thrift.structure([&](int16_t field) {
    switch (field) {
      case 1:
        page.entries = natural(thrift, in, "values of a page");
        break;
      case 4:
        page.encoding = choice(thrift, in, Encoding::byte_stream_split, "encoding");
        break;
      case 5:
        page.definition_bytes = natural(thrift, in, "bytes of levels");
        break;
      case 6:
        page.repetition_bytes = natural(thrift, in, "bytes of levels");
        break;
      case 7:
        page.compressed = thrift.boolean();
        break;
    }
  });
}

}  // namespace

FileMetadata read_metadata(std::span<const std::byte> file, const std::string& name) {
  constexpr uint64_t tail = 8;
  const std::string_view text{reinterpret_cast<const char*>(file.data()), file.size()};
  if (text.starts_with(encrypted_magic) || text.ends_with(encrypted_magic))
    fail(Fault::file, name, ": expected a Parquet file in clear, found an encrypted one");
  if (file.size() < magic.size() + tail || !text.starts_with(magic))
    fail(Fault::file, name, ": at byte 0: expected a Parquet file (PAR1), found another file");
  if (!text.ends_with(magic))
    fail(Fault::file, name, ": expected PAR1 at the end, found other bytes; the file is cut off");
  ByteReader end(file, name, file.size() - tail);
  const auto size = end.number<uint32_t>("size of the footer");
  if (size > file.size() - tail - magic.size())
    end.reject("expected a footer inside of the file, found one of ", size, " bytes");
  const uint64_t begin = file.size() - tail - size;
  ByteReader in(file.first(file.size() - tail), name, begin);
  ThriftReader thrift(in);
  FileMetadata metadata;
  thrift.top([&](int16_t field) {
    switch (field) {
      case 2:
        thrift.list([&] { metadata.schema.push_back(read_element(thrift, in)); });
        break;
      case 3:
        metadata.rows = natural(thrift, in, "rows");
        break;
      case 4:
        thrift.list([&] { metadata.groups.push_back(read_group(thrift, in, begin)); });
        break;
      case 8:
        in.reject("expected a footer in clear, found an encrypted one");
    }
  });
  check_rows(metadata, in, file.size());
  return metadata;
}

PageHeader read_page_header(ByteReader& in) {
  PageHeader page;
  ThriftReader thrift(in);
  bool values = false;
  thrift.top([&](int16_t field) {
    switch (field) {
      case 1:
        page.kind = choice(thrift, in, PageKind::data_v2, "page type");
        break;
      case 2:
        page.size = natural(thrift, in, "size of a page");
        break;
      case 3:
        page.packed_size = natural(thrift, in, "size of a page");
        break;
      case 4:
        page.checksum = uint32_t(thrift.integer32());
        break;
      case 5:
      case 7:
        read_values_header(thrift, in, page);
        values = true;
        break;
      case 8:
        read_values_header_v2(thrift, in, page);
        values = true;
        break;
    }
  });
  if (!values && page.kind != PageKind::index)
    in.reject("expected a page with values, found a header without them");
  if (page.size > max_page)
    in.reject("expected a page of at most ", max_page, " bytes, found ", page.size);
  return page;
}

Codec codec_of(const ColumnChunk& chunk, std::string_view name) {
  switch (chunk.codec) {
    case 0:
      return Codec::none;
    case 1:
      return Codec::snappy;
    case 2:
      return Codec::gzip;
    case 5:
      return Codec::hadoop_lz4;
    case 6:
      return Codec::zstd;
    case 7:
      return Codec::lz4;
    default:
      fail(Fault::file, name, ": codec: expected none, snappy, gzip, zstd or lz4, found ",
           chunk.codec == 3   ? "LZO"
           : chunk.codec == 4 ? "Brotli"
                              : cat("number ", chunk.codec));
  }
}

std::string_view name_of(PhysicalType type) { return type_names[size_t(type)]; }
std::string name_of(Encoding encoding) { return std::string(encoding_names[size_t(encoding)]); }

}  // namespace deltasane::parquet
