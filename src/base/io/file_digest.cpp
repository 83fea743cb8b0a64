#include "base/io/file_digest.h"

#include <xxhash.h>

namespace deltasane {

uint64_t file_digest(const fs::path& path) {
  constexpr uint64_t blocks = 1024, block = digested_bytes / blocks;
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() <= digested_bytes) return XXH3_64bits(bytes.data(), bytes.size());
  uint64_t digest = bytes.size();
  const uint64_t step = (bytes.size() - block) / (blocks - 1);
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t at = i + 1 == blocks ? bytes.size() - block : i * step;
    digest = XXH3_64bits_withSeed(bytes.data() + at, block, digest);
  }
  return digest;
}

}  // namespace deltasane
