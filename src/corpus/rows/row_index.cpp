#include "corpus/rows/row_index.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/cat.h"
#include "base/io/byte_writer.h"

namespace deltasane::corpus {
namespace {

constexpr std::string_view magic("DSROWS\0\1", 8);
constexpr size_t min_bytes = size_t{1} << 20;  // a smaller file is read as fast without an index
constexpr size_t end_bytes = size_t{64} << 10, kept_lengths = 4;

struct Stamp {
  uint64_t size = 0;
  int64_t time = 0;
  uint64_t ends = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(const fs::path& file, std::span<const std::byte> bytes) {
  std::error_code error;
  const auto time = fs::last_write_time(file, error);
  const std::span first = bytes.first(std::min(bytes.size(), end_bytes));
  const std::span last = bytes.last(std::min(bytes.size(), end_bytes));
  return {bytes.size(), error ? 0 : int64_t(time.time_since_epoch().count()),
          XXH64(last.data(), last.size(), XXH64(first.data(), first.size(), 0))};
}

// Reads what fits; after a read that does not, everything is zero and `ok` is false.
struct IndexReader {
  std::span<const std::byte> bytes;
  bool ok = true;

  std::span<const std::byte> take(uint64_t count, uint64_t size) {
    if (!ok || (size > 0 && count > bytes.size() / size)) {
      ok = false;
      return {};
    }
    const auto taken = bytes.first(size_t(count * size));
    bytes = bytes.subspan(taken.size());
    return taken;
  }
  template <class T>
  T number() {
    T value{};
    const auto taken = take(1, sizeof value);
    if (ok) std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> numbers(uint64_t count) {
    const auto taken = take(count, sizeof(T));
    std::vector<T> values(taken.size() / sizeof(T));
    if (!taken.empty()) std::memcpy(values.data(), taken.data(), taken.size());
    return values;
  }
};

bool lines_fit(const RowIndex& index, uint64_t size) {
  uint64_t end = 0;
  for (const RowLine& line : index.lines) {
    if (line.begin < end || line.begin > size || line.size > size - line.begin) return false;
    end = line.begin + line.size;
  }
  return true;
}

}  // namespace

fs::path index_path(const fs::path& file) {
  return file.parent_path() / cat(".", file.filename().string(), ".index");
}

std::optional<RowIndex> load_index(const fs::path& file, std::span<const std::byte> bytes) {
  const fs::path path = index_path(file);
  std::error_code error;
  if (bytes.size() < min_bytes || !fs::is_regular_file(path, error)) return std::nullopt;
  const MappedFile map(path);
  const std::span<const std::byte> all = map.bytes();
  uint64_t checksum = 0;
  if (all.size() < magic.size() + sizeof checksum) return std::nullopt;
  const std::span<const std::byte> content = all.first(all.size() - sizeof checksum);
  std::memcpy(&checksum, all.data() + content.size(), sizeof checksum);
  if (XXH64(content.data(), content.size(), 0) != checksum) return std::nullopt;
  IndexReader in{content};
  const auto mark = in.take(magic.size(), 1);
  if (std::memcmp(mark.data(), magic.data(), magic.size()) != 0) return std::nullopt;
  Stamp stamp;
  stamp.size = in.number<uint64_t>();
  stamp.time = in.number<int64_t>();
  stamp.ends = in.number<uint64_t>();
  if (!in.ok || stamp != stamp_of(file, bytes)) return std::nullopt;
  RowIndex index;
  index.rows = in.number<uint64_t>();
  const auto lines = in.number<uint64_t>();
  const auto begins = in.numbers<uint64_t>(lines);
  const auto sizes = in.numbers<uint32_t>(lines);
  const auto count = in.number<uint64_t>();
  for (uint64_t i = 0; in.ok && i < std::min<uint64_t>(count, kept_lengths); ++i) {
    const auto key = in.number<uint64_t>();
    index.lengths.push_back({key, in.numbers<uint32_t>(index.rows)});
  }
  if (!in.ok || !in.bytes.empty() || (lines > 0 && lines != index.rows)) return std::nullopt;
  for (uint64_t i = 0; i < lines; ++i) index.lines.push_back({begins[i], sizes[i]});
  if (!lines_fit(index, bytes.size())) return std::nullopt;
  return index;
}

void keep_index(const fs::path& file, std::span<const std::byte> bytes, const RowIndex& index) {
  if (bytes.size() < min_bytes) return;
  const Stamp stamp = stamp_of(file, bytes);
  ByteWriter out;
  out.text(magic);
  out.number(stamp.size);
  out.number(stamp.time);
  out.number(stamp.ends);
  out.number(index.rows);
  out.number(uint64_t{index.lines.size()});
  for (const RowLine& line : index.lines) out.number(line.begin);
  for (const RowLine& line : index.lines) out.number(line.size);
  const size_t first = index.lengths.size() - std::min(index.lengths.size(), kept_lengths);
  out.number(uint64_t{index.lengths.size() - first});
  for (size_t i = first; i < index.lengths.size(); ++i) {
    out.number(index.lengths[i].key);
    out.put(std::as_bytes(std::span(index.lengths[i].lengths)));
  }
  out.number(uint64_t{XXH64(out.bytes().data(), out.size(), 0)});
  try_replace_file(index_path(file), out.bytes());
}

}  // namespace deltasane::corpus
