#include "base/io/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#include "base/cat.h"
#include "base/error.h"

namespace deltasane {
namespace {

// A number of kilobytes in /proc/meminfo.
uint64_t meminfo(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key + ":"))
      return std::stoull(line.substr(key.size() + 1)) * uint64_t{1024};
  fail(Fault::device, "/proc/meminfo: expected ", key, ", found none");
}

std::optional<uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::string text;
  uint64_t value = 0;
  if (!(file >> text)) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;  // "max"
  return value;
}

}  // namespace

MemorySize host_memory_size() {
  MemorySize size{meminfo("MemTotal"), meminfo("MemAvailable")};
  if (const auto limit = number_in("/sys/fs/cgroup/memory.max"); limit && *limit < size.total) {
    size.total = *limit;
    const uint64_t used = number_in("/sys/fs/cgroup/memory.current").value_or(0);
    size.free = std::min(size.free, *limit > used ? *limit - used : 0);
  }
  return size;
}

std::string bytes_text(uint64_t bytes) {
  const bool large = bytes >= 1'000'000'000;
  const uint64_t unit = large ? 1'000'000'000 : 1'000'000;
  const uint64_t tenths = (bytes + unit / 20) / (unit / 10);
  return cat(tenths / 10, ".", tenths % 10, large ? " GB" : " MB");
}

}  // namespace deltasane
