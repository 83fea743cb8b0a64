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

RecordHeader read_header(ByteReader& reader, std::span<const std::byte> bytes, uint32_t& version) {
  if (reader.remaining() < record_magic.size() ||
      reader.text(record_magic.size(), "magic") != record_magic)
    fail(Fault::file, reader.name(), ": at byte 0: expected a record file, found another kind");
  version = reader.number<uint32_t>("version");
  if (version != record_version && version != numbers_version)
    fail(Fault::file, reader.name(), ": at byte 8: expected version ", numbers_version, " or ",
         record_version, " of a record file, found ", version,
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
    const auto last = uint32_t(version == numbers_version ? ColumnType::real : ColumnType::bytes);
    if (type > last) inside.reject("expected a type of 0 to ", last, ", found ", type);
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

struct Group {
  uint32_t rows = 0;
  std::span<const std::byte> columns;
  uint64_t size = 0;  // with what is around the columns
};

// Reads where the group that begins here ends, or says why there is none.
std::string fault_of_group(std::span<const std::byte> rest, uint64_t columns, uint32_t version,
                           Group& group) {
  const uint64_t prefix = group_prefix(version);
  if (rest.size() < prefix) return "the last group of rows is cut off";
  if (std::memcmp(rest.data(), group_magic.data(), group_magic.size()) != 0)
    return "expected a group of rows, found other bytes";
  std::memcpy(&group.rows, rest.data() + group_magic.size(), sizeof group.rows);
  uint64_t inside = uint64_t(group.rows) * columns * 8;  // fits: 32 + 17 + 3 bits
  if (version != numbers_version) std::memcpy(&inside, rest.data() + 8, sizeof inside);
  if (inside > rest.size()) return "the last group of rows is cut off";
  group.size = prefix + inside + record_checksum;
  if (group.size > rest.size()) return "the last group of rows is cut off";
  uint64_t stated;
  std::memcpy(&stated, rest.data() + group.size - record_checksum, sizeof stated);
  if (stated != checksum_of(rest.first(group.size - record_checksum)))
    return "a group of rows does not match its checksum";
  group.columns = rest.subspan(prefix, inside);
  return {};
}

template <class T>
void append_numbers(std::vector<T>& to, const std::byte* from, size_t count) {
  const size_t before = to.size();
  to.resize(before + count);
  if (count) std::memcpy(to.data() + before, from, count * sizeof(T));
}

// Lengths, then the bytes of all rows; false where they do not fit into what is there.
bool append_bytes(std::vector<std::string>& to, std::span<const std::byte>& rest, uint32_t rows) {
  if (rest.size() / sizeof(uint32_t) < rows) return false;
  std::span<const std::byte> lengths = rest.first(rows * sizeof(uint32_t));
  rest = rest.subspan(lengths.size());
  for (; !lengths.empty(); lengths = lengths.subspan(sizeof(uint32_t))) {
    uint32_t length;
    std::memcpy(&length, lengths.data(), sizeof length);
    if (length > rest.size()) return false;
    to.emplace_back(reinterpret_cast<const char*>(rest.data()), length);
    rest = rest.subspan(length);
  }
  return true;
}

// False where the columns are longer or shorter than the group.
bool append_group(RecordTable& table, const Group& group) {
  std::span<const std::byte> rest = group.columns;
  for (size_t c = 0; c < table.values.size(); ++c) {
    ColumnValues& values = table.values[c];
    const ColumnType type = table.header.columns[c].type;
    if (type == ColumnType::bytes) {
      if (!append_bytes(values.bytes, rest, group.rows)) return false;
      continue;
    }
    if (rest.size() / 8 < group.rows) return false;
    if (type == ColumnType::integer)
      append_numbers(values.integers, rest.data(), group.rows);
    else
      append_numbers(values.reals, rest.data(), group.rows);
    rest = rest.subspan(uint64_t(group.rows) * 8);
  }
  table.rows += group.rows;
  return rest.empty();
}

void truncate_to_rows(RecordTable& table, int64_t rows) {
  for (ColumnValues& values : table.values) {
    values.integers.resize(std::min(values.integers.size(), size_t(rows)));
    values.reals.resize(std::min(values.reals.size(), size_t(rows)));
    values.bytes.resize(std::min(values.bytes.size(), size_t(rows)));
  }
  table.rows = rows;
}

}  // namespace

RecordTable read_records(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  RecordTable table;
  uint32_t version = 0;
  table.header = read_header(reader, bytes, version);
  table.values.resize(table.header.columns.size());
  uint64_t at = reader.offset();
  while (at < bytes.size()) {
    Group group;
    const int64_t rows = table.rows;
    table.damage = fault_of_group(bytes.subspan(at), table.header.columns.size(), version, group);
    if (table.damage.empty() && !append_group(table, group)) {
      table.damage = "the columns of a group do not have its size";
      truncate_to_rows(table, rows);
    }
    if (!table.damage.empty()) {
      table.damage = cat(name, ": at byte ", at, ": ", table.damage);
      break;
    }
    at += group.size;
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

const std::vector<std::string>& RecordTable::bytes(std::string_view column) const {
  return values[index_of(column, ColumnType::bytes)].bytes;
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
      const ColumnType type = table.header.columns[c].type;
      const ColumnValues& values = table.values[c];
      if (type == ColumnType::integer) append_part(text, values.integers[size_t(row)]);
      if (type == ColumnType::real) append_part(text, values.reals[size_t(row)]);
      if (type == ColumnType::bytes)
        for (const char byte : values.bytes[size_t(row)])
          text += "0123456789abcdef"[uint8_t(byte) >> 4], text += "0123456789abcdef"[byte & 15];
    }
    text += '\n';
  }
  return text;
}

}  // namespace deltasane::probe
