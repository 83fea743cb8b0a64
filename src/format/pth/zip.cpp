#include "format/pth/zip.h"

#include <algorithm>
#include <unordered_set>

#include "base/checked.h"
#include "base/io/byte_reader.h"
#include "base/printable.h"
#include "format/pth/zip_format.h"

namespace deltasane {
namespace {

using namespace zip;

constexpr uint64_t max_entries = 200'000, max_name = 512;

struct Directory {
  uint64_t entries, size, offset;
};

// One row of the central directory.
struct Row {
  std::string name;
  uint16_t flags;
  uint32_t checksum;
  uint64_t size, local;
};

void expect_signature(ByteReader& reader, uint32_t expected, std::string_view what) {
  const uint64_t at = reader.offset();
  const uint32_t found = reader.number<uint32_t>(what);
  if (found != expected)
    fail(Fault::file, reader.name(), ": at byte ", at, ": expected a ZIP ", what, ", found none");
}

Directory read_end64(std::span<const std::byte> bytes, const std::string& name, uint64_t at) {
  ByteReader reader(bytes, name, at);
  expect_signature(reader, end64_signature, "64-bit end record");
  const uint64_t size = reader.number<uint64_t>("64-bit end record");
  reader.number<uint32_t>("versions");
  const uint32_t disk = reader.number<uint32_t>("disk"), first = reader.number<uint32_t>("disk");
  const uint64_t here = reader.number<uint64_t>("entries");
  Directory out;
  out.entries = reader.number<uint64_t>("entries");
  out.size = reader.number<uint64_t>("directory size");
  out.offset = reader.number<uint64_t>("directory offset");
  if (size != end64_size - 12 || disk != 0 || first != 0 || here != out.entries)
    fail(Fault::file, name, ": at byte ", at, ": expected the 64-bit end record of one archive");
  return out;
}

// Locates the central directory. It ends where the end records begin.
Directory find_directory(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < end_size)
    fail(Fault::file, name, ": expected a ZIP archive of at least ", end_size, " bytes, found ",
         bytes.size());
  uint64_t end = bytes.size() - end_size;
  ByteReader reader(bytes, name, end);
  expect_signature(reader, end_signature, "end record in the last 22 bytes");
  const auto disk = reader.number<uint16_t>("disk"), first = reader.number<uint16_t>("disk");
  const auto here = reader.number<uint16_t>("entries"), all = reader.number<uint16_t>("entries");
  const auto size = reader.number<uint32_t>("size"), offset = reader.number<uint32_t>("offset");
  const auto comment = reader.number<uint16_t>("comment");
  if (disk != 0 || first != 0 || here != all || comment != 0)
    fail(Fault::file, name, ": at byte ", end, ": expected the end record of one archive without ",
         "a comment");
  Directory out{all, size, offset};
  if (end >= locator_size + end64_size) {
    ByteReader locator(bytes, name, end - locator_size);
    if (locator.number<uint32_t>("locator") == locator_signature) {
      const auto locator_disk = locator.number<uint32_t>("disk");
      const auto at = locator.number<uint64_t>("64-bit end record");
      if (locator_disk != 0 || locator.number<uint32_t>("disks") != 1 ||
          at != end - locator_size - end64_size)
        fail(Fault::file, name, ": at byte ", end - locator_size,
             ": expected the 64-bit end record right before its locator");
      end = at;
      out = read_end64(bytes, name, at);
      if ((all != full16 && all != out.entries) || (size != full32 && size != out.size) ||
          (offset != full32 && offset != out.offset))
        fail(Fault::file, name, ": at byte ", at, ": expected two end records that agree");
    }
  }
  if (out.offset > end || out.size != end - out.offset)
    fail(Fault::file, name, ": at byte ", end, ": expected the directory to end here, found ",
         out.size, " bytes from byte ", out.offset);
  if (out.entries > max_entries)
    fail(Fault::file, name, ": expected at most ", max_entries, " entries, found ", out.entries);
  return out;
}

void check_name(std::string_view entry, const ByteReader& reader) {
  bool bad = entry.empty() || entry.front() == '/' || entry.back() == '/' ||
             entry.find_first_of(std::string_view("\\\0", 2)) != entry.npos;
  for (size_t begin = 0; begin <= entry.size();) {
    const size_t end = std::min(entry.find('/', begin), entry.size());
    const std::string_view part = entry.substr(begin, end - begin);
    bad = bad || part.empty() || part == "." || part == "..";
    begin = end + 1;
  }
  if (bad) reader.reject("expected a plain relative entry name, found ", printable(entry));
}

// The sizes and, in the directory, the offset of an entry.
struct Extent {
  uint64_t size, packed, local;
};

// Replaces the 32-bit fields that are full by those of the 64-bit extra field.
Extent widened(uint32_t size, uint32_t packed, uint32_t local, ByteReader extra) {
  Extent out{size, packed, local};
  while (extra.remaining() >= 4) {
    const auto id = extra.number<uint16_t>("extra field");
    const auto length = extra.number<uint16_t>("extra field");
    if (id != 1) {
      extra.take(length, "extra field");
      continue;
    }
    if (size == full32) out.size = extra.number<uint64_t>("64-bit size");
    if (packed == full32) out.packed = extra.number<uint64_t>("64-bit size");
    if (local == full32) out.local = extra.number<uint64_t>("64-bit offset");
    break;
  }
  return out;
}

Row read_row(ByteReader& reader) {
  expect_signature(reader, central_signature, "directory entry");
  reader.number<uint32_t>("versions");
  Row row;
  row.flags = reader.number<uint16_t>("flags");
  const auto method = reader.number<uint16_t>("method");
  reader.number<uint32_t>("time");
  row.checksum = reader.number<uint32_t>("checksum");
  const auto packed = reader.number<uint32_t>("size"), size = reader.number<uint32_t>("size");
  const auto name_length = reader.number<uint16_t>("name length");
  const auto extra_length = reader.number<uint16_t>("extra length");
  const auto comment_length = reader.number<uint16_t>("comment length");
  const auto disk = reader.number<uint16_t>("disk");
  reader.take(6, "attributes");
  const auto local = reader.number<uint32_t>("local offset");
  if (name_length > max_name)
    reader.reject("expected names of at most ", max_name, " bytes, found ", name_length);
  row.name = reader.text(name_length, "entry name");
  check_name(row.name, reader);
  if (row.flags & ~(descriptor_flag | utf8_flag))
    reader.reject("entry ", printable(row.name),
                  ": expected no encryption or patching, found flags ", row.flags);
  if (method != 0)
    reader.reject("entry ", printable(row.name),
                  ": expected it stored (method 0), found compression ", "method ", method,
                  "; save it again without compression");
  if (disk != 0 && disk != full16) reader.reject("expected one disk, found number ", disk);
  const Extent extent = widened(
      size, packed, local, ByteReader(reader.take(extra_length, "extra fields"), reader.name()));
  if (extent.packed != extent.size)
    reader.reject("entry ", printable(row.name), ": expected equal sizes, found ", extent.packed,
                  " stored and ", extent.size, " original");
  row.size = extent.size;
  row.local = extent.local;
  reader.take(comment_length, "entry comment");
  return row;
}

// After the bytes of an entry whose local header left them out: its checksum and sizes. The sizes
// have 64 bits where the entry is that large and, as PyTorch writes it, where it lies that far.
void check_descriptor(ByteReader& reader, const Row& row) {
  expect_signature(reader, descriptor_signature, "descriptor");
  const auto agrees = [&](auto size) {
    ByteReader there = reader;
    using Size = decltype(size);
    const auto checksum = there.number<uint32_t>("checksum");
    const Size packed = there.number<Size>("size"), original = there.number<Size>("size");
    if (checksum != row.checksum || packed != row.size || original != row.size) return false;
    reader = there;
    return true;
  };
  const bool far = row.size >= full32 || row.local >= full32;
  if (!(far && agrees(uint64_t{})) && !agrees(uint32_t{}))
    reader.reject("entry ", printable(row.name), ": expected a descriptor that repeats the ",
                  "directory, found another");
}

struct Located {
  ChecksummedBytes entry;
  uint64_t end;  // of all that belongs to it
};

Located locate(const Row& row, std::span<const std::byte> before, const std::string& name) {
  ByteReader reader(before, name, row.local);
  expect_signature(reader, local_signature, "local header");
  reader.number<uint16_t>("version");
  const auto flags = reader.number<uint16_t>("flags");
  const auto method = reader.number<uint16_t>("method");
  reader.number<uint32_t>("time");
  const auto checksum = reader.number<uint32_t>("checksum");
  const auto packed = reader.number<uint32_t>("size"), size = reader.number<uint32_t>("size");
  const auto name_length = reader.number<uint16_t>("name length");
  const auto extra_length = reader.number<uint16_t>("extra length");
  const std::string_view local_name = reader.text(name_length, "entry name");
  if (flags != row.flags || method != 0 || local_name != row.name)
    reader.reject("entry ", printable(row.name), ": expected a local header that repeats the ",
                  "directory, found another");
  const Extent here = widened(
      size, packed, 0, ByteReader(reader.take(extra_length, "extra fields"), reader.name()));
  // With a descriptor the header may have zeros.
  const bool later = flags & descriptor_flag;
  const auto agrees = [&](uint64_t found, uint64_t expected) {
    return found == expected || (later && found == 0);
  };
  if (!agrees(here.size, row.size) || !agrees(here.packed, row.size))
    reader.reject("entry ", printable(row.name), ": expected the directory's size ", row.size,
                  " in the local header, found ", here.size);
  if (!agrees(checksum, row.checksum))
    reader.reject("entry ", printable(row.name), ": expected the directory's checksum ",
                  row.checksum, " in the local header, found ", checksum);
  ChecksummedBytes entry{row.name, {}, reader.offset(), row.checksum};
  entry.bytes = reader.take(row.size, cat("entry ", printable(row.name)));
  if (later) check_descriptor(reader, row);
  return {entry, reader.offset()};
}

void check_overlap(std::vector<std::pair<uint64_t, uint64_t>> spans, const std::string& name) {
  std::sort(spans.begin(), spans.end());
  for (size_t i = 1; i < spans.size(); ++i)
    if (spans[i].first < spans[i - 1].second)
      fail(Fault::file, name, ": at byte ", spans[i].first, ": expected disjoint entries, ",
           "found two that overlap");
}

}  // namespace

std::vector<ChecksummedBytes> read_zip(std::span<const std::byte> bytes, const std::string& name) {
  const Directory directory = find_directory(bytes, name);
  ByteReader reader(bytes.first(directory.offset + directory.size), name, directory.offset);
  std::vector<ChecksummedBytes> entries;
  std::unordered_set<std::string> names;
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const Row row = read_row(reader);
    if (!names.insert(row.name).second)
      reader.reject("entry ", printable(row.name), ": expected one of this name, found two");
    Located located = locate(row, bytes.first(directory.offset), name);
    spans.emplace_back(row.local, located.end);
    entries.push_back(std::move(located.entry));
  }
  if (reader.remaining() != 0)
    reader.reject("expected the end of the directory, found ", reader.remaining(), " bytes more");
  check_overlap(std::move(spans), name);
  return entries;
}

bool states_checksums(const std::vector<ChecksummedBytes>& entries) {
  return std::ranges::any_of(entries, [](const auto& entry) { return entry.checksum != 0; });
}

}  // namespace deltasane
