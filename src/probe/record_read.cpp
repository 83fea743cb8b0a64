#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/printable.h"
#include "base/io/byte_reader.h"
#include "probe/record_file.h"
#include "probe/record_layout.h"

namespace deltasane::probe {
namespace {

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string read_text(ByteReader& reader, std::string_view what) {
  const uint64_t size = reader.number<uint32_t>(what);
  return std::string(reader.text(size, what));
}

RecordHeader read_header(ByteReader& reader, std::span<const std::byte> bytes) {
  if (reader.remaining() < record_magic.size() ||
      reader.text(record_magic.size(), "magic") != record_magic)
    fail(Fault::file, reader.name(), ": at byte 0: expected a record file, found another kind");
  if (const auto version = reader.number<uint32_t>("version"); version != record_version)
    fail(Fault::file, reader.name(), ": at byte 8: expected version ", record_version,
         " of a record file, found ", version,
         version > record_version ? "; a later version of this program reads it" : "");
  const uint64_t length = reader.number<uint32_t>("header length");
  if (length > max_record_header)
    reader.reject("expected a header of at most ", max_record_header, " bytes, found ", length);
  const uint64_t end = reader.offset() + length;
  reader.take(length, "header");
  if (reader.number<uint64_t>("checksum of the header") != checksum_of(bytes.first(end)))
    fail(Fault::file, reader.name(),
         ": the header is damaged: expected another checksum; the records cannot be read");
  ByteReader inside(bytes.first(end), reader.name(), end - length);
  RecordHeader header;
  header.table = read_text(inside, "table");
  const auto columns = inside.number<uint32_t>("number of columns");
  for (uint32_t i = 0; i < columns; ++i) {
    const auto type = inside.number<uint32_t>("column type");
    if (type > uint32_t(ColumnType::real)) inside.reject("expected a type of 0 or 1, found ", type);
    header.columns.push_back({read_text(inside, "column name"), ColumnType(type)});
  }
  const auto settings = inside.number<uint32_t>("number of settings");
  for (uint32_t i = 0; i < settings; ++i) {
    std::string key = read_text(inside, "key");
    header.settings.emplace_back(std::move(key), read_text(inside, "value"));
  }
  if (header.columns.empty() || inside.remaining() != 0)
    inside.reject("expected columns and the end of the header, found ", header.columns.size(),
                  " columns and ", inside.remaining(), " bytes");
  return header;
}

// The size of the group that begins here, or why there is none.
std::string fault_of_group(std::span<const std::byte> rest, uint64_t columns, uint64_t& size) {
  if (rest.size() < group_prefix) return "the last group of rows is cut off";
  if (std::memcmp(rest.data(), group_magic.data(), group_magic.size()) != 0)
    return "expected a group of rows, found other bytes";
  uint32_t rows;
  std::memcpy(&rows, rest.data() + group_magic.size(), sizeof rows);
  size = group_prefix + uint64_t(rows) * columns * 8 + record_checksum;  // fits: 32 + 17 + 3 bits
  if (size > rest.size()) return "the last group of rows is cut off";
  uint64_t stated;
  std::memcpy(&stated, rest.data() + size - record_checksum, sizeof stated);
  if (stated != checksum_of(rest.first(size - record_checksum)))
    return "a group of rows does not match its checksum";
  return {};
}

template <class T>
void append_numbers(std::vector<T>& to, const std::byte* from, size_t count) {
  const size_t before = to.size();
  to.resize(before + count);
  if (count) std::memcpy(to.data() + before, from, count * sizeof(T));
}

}  // namespace

RecordTable read_records(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  RecordTable table;
  table.header = read_header(reader, bytes);
  table.values.resize(table.header.columns.size());
  uint64_t at = reader.offset();
  while (at < bytes.size()) {
    uint64_t size = 0;
    table.damage = fault_of_group(bytes.subspan(at), table.header.columns.size(), size);
    if (!table.damage.empty()) {
      table.damage = cat(name, ": at byte ", at, ": ", table.damage);
      break;
    }
    const uint64_t rows = (size - group_prefix - record_checksum) / 8 / table.values.size();
    const std::byte* from = bytes.data() + at + group_prefix;
    for (size_t c = 0; c < table.values.size(); ++c, from += rows * 8) {
      if (table.header.columns[c].type == ColumnType::integer)
        append_numbers(table.values[c].integers, from, rows);
      else
        append_numbers(table.values[c].reals, from, rows);
    }
    table.rows += int64_t(rows);
    at += size;
  }
  table.intact_bytes = at;
  table.lost_bytes = bytes.size() - at;
  return table;
}

RecordTable read_records(const fs::path& path) {
  const MappedFile file(path);
  return read_records(file.bytes(), path.string());
}

size_t RecordTable::index_of(std::string_view column, ColumnType type) const {
  for (size_t i = 0; i < header.columns.size(); ++i)
    if (header.columns[i].name == column && header.columns[i].type == type) return i;
  fail(Fault::file, "records of ", header.table, ": expected a column '", column,
       "', found none of this name and type");
}

bool RecordTable::has(std::string_view column) const {
  for (const Column& c : header.columns)
    if (c.name == column) return true;
  return false;
}

const std::vector<int64_t>& RecordTable::integers(std::string_view column) const {
  return values[index_of(column, ColumnType::integer)].integers;
}

const std::vector<double>& RecordTable::reals(std::string_view column) const {
  return values[index_of(column, ColumnType::real)].reals;
}

bool RecordTable::has_setting(std::string_view key) const {
  return std::ranges::any_of(header.settings, [&](const auto& one) { return one.first == key; });
}

const std::string& RecordTable::setting(std::string_view key) const {
  for (const auto& [name, value] : header.settings)
    if (name == key) return value;
  fail(Fault::file, "records of ", header.table, ": expected a setting '", key, "', found none");
}

int64_t RecordTable::count_setting(std::string_view key) const {
  const std::string& text = setting(key);
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > 1 << 20)
    fail(Fault::file, "records of ", header.table, ": ", key, ": expected 1 to 1048576, found ",
         printable(text));
  return count;
}

std::string csv_of(const RecordTable& table) {
  std::string text;
  const size_t columns = table.header.columns.size();
  for (size_t c = 0; c < columns; ++c) text += cat(c ? "," : "", table.header.columns[c].name);
  text += '\n';
  for (int64_t row = 0; row < table.rows; ++row) {
    for (size_t c = 0; c < columns; ++c) {
      if (c) text += ',';
      if (table.header.columns[c].type == ColumnType::integer)
        append_part(text, table.values[c].integers[size_t(row)]);
      else
        append_part(text, table.values[c].reals[size_t(row)]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace deltasane::probe
