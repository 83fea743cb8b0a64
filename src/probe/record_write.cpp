#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "probe/record_file.h"
#include "probe/record_layout.h"

namespace deltasane::probe {
namespace {

[[noreturn]] void fail_to(std::string_view action, const fs::path& path) {
  fail(Fault::file, path, ": cannot ", action, ": ", std::strerror(errno));
}

template <class T>
void put_number(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put_number(bytes, uint32_t(text.size()));
  bytes += text;
}

void put_checksum(std::string& bytes) {
  put_number(bytes, uint64_t(XXH3_64bits(bytes.data(), bytes.size())));
}

uint32_t version_of(const RecordHeader& header) {
  for (const Column& column : header.columns)
    if (column.type == ColumnType::bytes) return record_version;
  return numbers_version;
}

std::string header_bytes(const RecordHeader& header) {
  std::string rest;
  put_text(rest, header.table);
  put_number(rest, uint32_t(header.columns.size()));
  for (const Column& column : header.columns) {
    put_number(rest, uint32_t(column.type));
    put_text(rest, column.name);
  }
  put_number(rest, uint32_t(header.settings.size()));
  for (const auto& [key, value] : header.settings) put_text(rest, key), put_text(rest, value);
  require(rest.size() <= max_record_header, "a record file's header is small");
  std::string bytes(record_magic);
  put_number(bytes, version_of(header));
  put_number(bytes, uint32_t(rest.size()));
  bytes += rest;
  put_checksum(bytes);
  return bytes;
}

}  // namespace

RecordWriter::RecordWriter(const fs::path& path, const RecordHeader& header)
    : path_(path), header_(header), pending_(header.columns.size()) {
  const std::string first = header_bytes(header);
  replace_file(path, first);  // so that no reader ever sees a part of a header
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail_to("open", path);
  bytes_ = first.size();
}

RecordWriter::RecordWriter(const fs::path& path, const RecordHeader& header, uint64_t bytes)
    : path_(path), header_(header), pending_(header.columns.size()), bytes_(bytes) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail_to("open", path);
  if (::ftruncate(descriptor_, off_t(bytes)) != 0) {
    ::close(descriptor_);
    fail_to("cut", path);
  }
}

RecordWriter::~RecordWriter() { ::close(descriptor_); }

const Column& RecordWriter::next_column() {
  const Column& column = header_.columns[column_];
  column_ = (column_ + 1) % header_.columns.size();
  if (column_ == 0) ++rows_;
  return column;
}

void RecordWriter::add(int64_t value) {
  const size_t at = column_;
  require(next_column().type == ColumnType::integer, "the column holds integers");
  pending_[at].integers.push_back(value);
}

void RecordWriter::add(double value) {
  const size_t at = column_;
  require(next_column().type == ColumnType::real, "the column holds real numbers");
  pending_[at].reals.push_back(value);
}

void RecordWriter::add(std::string bytes) {
  const size_t at = column_;
  require(next_column().type == ColumnType::bytes, "the column holds bytes");
  require(bytes.size() <= UINT32_MAX, "a value's bytes are counted by 32 bits");
  pending_[at].bytes.push_back(std::move(bytes));
}

void RecordWriter::append() {
  require(column_ == 0, "rows are complete");
  if (rows_ == 0) return;
  std::string columns;
  for (ColumnValues& column : pending_) {
    for (const int64_t value : column.integers) put_number(columns, value);
    for (const double value : column.reals) put_number(columns, value);
    for (const std::string& value : column.bytes) put_number(columns, uint32_t(value.size()));
    for (const std::string& value : column.bytes) columns += value;
    column = {};
  }
  std::string bytes(group_magic);
  put_number(bytes, uint32_t(rows_));
  if (version_of(header_) != numbers_version) put_number(bytes, uint64_t(columns.size()));
  bytes += columns;
  put_checksum(bytes);
  rows_ = 0;
  put(std::as_bytes(std::span(bytes)));
}

void RecordWriter::put(std::span<const std::byte> bytes) {
  const uint64_t before = bytes_;
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;  // a part of a group is of no use to anyone
      const int cut = ::ftruncate(descriptor_, off_t(before));
      errno = reason;
      fail_to(cut == 0 ? "write" : "write, nor cut back,", path_);
    }
    bytes = bytes.subspan(size_t(written));
    bytes_ += uint64_t(written);
  }
}

void RecordWriter::flush() {
  if (::fsync(descriptor_) != 0) fail_to("flush", path_);
}

}  // namespace deltasane::probe
