// Tables of numbers that grow while a program runs and survive its end at any moment. The format
// and its reasons: docs/stream-records.md.
//
// A file is a header (columns, and settings as text) and groups of rows, each with a checksum. It
// is read as if by an enemy. What follows the last whole group is the trace of an interrupted
// write: a reader keeps the intact groups and says how many bytes it left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/io/file.h"

namespace deltasane::probe {

enum class ColumnType : uint8_t { integer, real, bytes };  // i64, f64, and any number of bytes

struct Column {
  std::string name;
  ColumnType type = ColumnType::real;
  friend bool operator==(const Column&, const Column&) = default;
};

using Settings = std::vector<std::pair<std::string, std::string>>;

struct RecordHeader {
  std::string table;
  std::vector<Column> columns;
  Settings settings;
  friend bool operator==(const RecordHeader&, const RecordHeader&) = default;
};

// One column's numbers; the vector of its type is used.
struct ColumnValues {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> bytes;
};

class RecordTable {
 public:
  RecordHeader header;
  std::vector<ColumnValues> values;  // beside header.columns
  int64_t rows = 0;
  uint64_t intact_bytes = 0, lost_bytes = 0;
  std::string damage;  // why bytes were lost; empty when none were

  bool has(std::string_view column) const;
  // Fails where there is no such column of this type.
  const std::vector<int64_t>& integers(std::string_view column) const;
  const std::vector<double>& reals(std::string_view column) const;
  const std::vector<std::string>& bytes(std::string_view column) const;
  bool has_setting(std::string_view key) const;
  const std::string& setting(std::string_view key) const;
  int64_t count_setting(std::string_view key) const;  // 1 to 2^20; fails for anything else

 private:
  size_t index_of(std::string_view column, ColumnType type) const;
};

// `name` is for messages. Fails where the header is damaged; damage behind it is reported.
RecordTable read_records(std::span<const std::byte> bytes, const std::string& name);
RecordTable read_records(const fs::path& path);

// Appends groups of rows. A new file, or one cut back to its first `bytes` bytes, which must end
// with a group.
class RecordWriter {
 public:
  RecordWriter(const fs::path& path, const RecordHeader& header);  // replaces what is there
  RecordWriter(const fs::path& path, const RecordHeader& header, uint64_t bytes);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // A row's numbers, in the order of the columns: add() one at a time, then append() the group.
  void add(int64_t value);
  void add(double value);
  void add(std::string bytes);
  void append();
  void flush();  // to the disk
  uint64_t bytes() const { return bytes_; }
  const RecordHeader& header() const { return header_; }

 private:
  void put(std::span<const std::byte> bytes);
  const Column& next_column();

  fs::path path_;
  RecordHeader header_;
  std::vector<ColumnValues> pending_;
  size_t column_ = 0;
  int64_t rows_ = 0;
  uint64_t bytes_ = 0;
  int descriptor_ = -1;
};

// A line of names, then a line per row; bytes as hexadecimal digits.
std::string csv_of(const RecordTable& table);

}  // namespace deltasane::probe
