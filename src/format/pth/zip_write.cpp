#include "format/pth/zip_write.h"

#include "base/crc32/crc32.h"
#include "base/error.h"
#include "base/io/byte_writer.h"
#include "format/pth/zip_format.h"

namespace deltasane {
namespace {

using namespace zip;

constexpr uint16_t stored = 0;
constexpr uint16_t version = 20, version64 = 45;     // of the format, that a reader needs
constexpr uint16_t day = 0x21, padding_id = 0x4246;  // 1980-01-01: files of equal tensors are equal
constexpr uint64_t alignment = 64, checksum_at = 14, header_size = 30, extra_size = 4;

uint32_t low(uint64_t number) { return number < full32 ? uint32_t(number) : full32; }

// What local headers and the directory say alike, from the version on.
void put_entry(ByteWriter& out, bool large, uint32_t checksum, uint64_t size, size_t name) {
  out.number<uint16_t>(large ? version64 : version);
  out.number<uint16_t>(utf8_flag);
  out.number<uint16_t>(stored);
  out.number<uint16_t>(0);  // time
  out.number<uint16_t>(day);
  out.number<uint32_t>(checksum);
  out.number<uint32_t>(low(size));
  out.number<uint32_t>(low(size));
  out.number<uint16_t>(uint16_t(name));
}

}  // namespace

bool ZipWriter::Entry::large() const { return size >= zip::full32; }

void ZipWriter::add(const std::string& name, std::string_view bytes) {
  begin(name, bytes.size());
  write(std::as_bytes(std::span(bytes)));
  end();
}

void ZipWriter::begin(const std::string& name, uint64_t size) {
  require(name.size() < full16, "an entry's name is short");
  const Entry& entry = entries_.emplace_back(Entry{name, size, file_.size()});
  ByteWriter extra;
  if (entry.large()) {
    extra.number<uint16_t>(1);
    extra.number<uint16_t>(16);
    extra.number<uint64_t>(size);
    extra.number<uint64_t>(size);
  }
  const uint64_t start = file_.size() + header_size + name.size() + extra.size() + extra_size;
  const uint64_t gap = (alignment - start % alignment) % alignment;
  extra.number<uint16_t>(padding_id);
  extra.number<uint16_t>(uint16_t(gap));
  extra.text(std::string(gap, 'Z'));
  ByteWriter header;
  header.number(local_signature);
  put_entry(header, entry.large(), 0, size, name.size());
  header.number<uint16_t>(uint16_t(extra.size()));
  header.text(name);
  header.put(extra.bytes());
  file_.write(header.bytes());
  written_ = 0;
}

void ZipWriter::write(std::span<const std::byte> piece) {
  entries_.back().checksum = crc32(piece, entries_.back().checksum);
  file_.write(piece);
  written_ += piece.size();
}

void ZipWriter::end() {
  const Entry& entry = entries_.back();
  require(written_ == entry.size, "an entry has the bytes it announced");
  file_.overwrite(entry.local + checksum_at, std::as_bytes(std::span(&entry.checksum, 1)));
}

void ZipWriter::finish() {
  ByteWriter directory;
  for (const Entry& entry : entries_) {
    ByteWriter extra;
    if (entry.large()) extra.number<uint64_t>(entry.size), extra.number<uint64_t>(entry.size);
    if (entry.local >= full32) extra.number<uint64_t>(entry.local);
    const bool large = extra.size() > 0;
    directory.number(central_signature);
    directory.number<uint16_t>(version64);  // of the writer
    put_entry(directory, large, entry.checksum, entry.size, entry.name.size());
    directory.number<uint16_t>(uint16_t(large ? extra_size + extra.size() : 0));
    directory.number<uint16_t>(0);  // comment
    directory.number<uint16_t>(0);  // disk
    directory.number<uint16_t>(0);  // attributes
    directory.number<uint32_t>(0);
    directory.number<uint32_t>(low(entry.local));
    directory.text(entry.name);
    if (!large) continue;
    directory.number<uint16_t>(1);
    directory.number<uint16_t>(uint16_t(extra.size()));
    directory.put(extra.bytes());
  }
  const uint64_t count = entries_.size(), offset = file_.size(), size = directory.size();
  ByteWriter ends;
  ends.number(end64_signature);
  ends.number<uint64_t>(end64_size - 12);  // bytes of this record that follow
  ends.number<uint16_t>(version64);
  ends.number<uint16_t>(version64);
  ends.number<uint32_t>(0);
  ends.number<uint32_t>(0);
  for (const uint64_t number : {count, count, size, offset}) ends.number<uint64_t>(number);
  ends.number(locator_signature);
  ends.number<uint32_t>(0);
  ends.number<uint64_t>(offset + size);
  ends.number<uint32_t>(1);
  ends.number(end_signature);
  ends.number<uint32_t>(0);
  const auto short_count = uint16_t(count < full16 ? count : full16);
  ends.number<uint16_t>(short_count);
  ends.number<uint16_t>(short_count);
  ends.number<uint32_t>(low(size));
  ends.number<uint32_t>(low(offset));
  ends.number<uint16_t>(0);
  file_.write(directory.bytes());
  file_.write(ends.bytes());
}

}  // namespace deltasane
