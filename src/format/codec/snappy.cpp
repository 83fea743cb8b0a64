#include <snappy.h>

#include "format/codec/libraries.h"

namespace deltasane::codec {

const bool snappy_built = true;

bool snappy_block(std::span<const std::byte> bytes, std::span<std::byte> out) {
  const auto* const packed = reinterpret_cast<const char*>(bytes.data());
  size_t size = 0;
  return snappy::GetUncompressedLength(packed, bytes.size(), &size) && size == out.size() &&
         snappy::RawUncompress(packed, bytes.size(), reinterpret_cast<char*>(out.data()));
}

}  // namespace deltasane::codec
