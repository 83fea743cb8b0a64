#include <lz4.h>

#include <limits>

#include "format/codec/libraries.h"

namespace deltasane::codec {

const bool lz4_built = true;

bool lz4_block(std::span<const std::byte> bytes, std::span<std::byte> out) {
  constexpr size_t most = std::numeric_limits<int>::max();
  if (bytes.size() > most || out.size() > most) return false;
  const int size =
      LZ4_decompress_safe(reinterpret_cast<const char*>(bytes.data()),
                          reinterpret_cast<char*>(out.data()), int(bytes.size()), int(out.size()));
  return size >= 0 && size_t(size) == out.size();
}

}  // namespace deltasane::codec
