// For builds without the library of snappy.
#include "format/codec/libraries.h"

namespace deltasane::codec {

const bool snappy_built = false;

bool snappy_block(std::span<const std::byte>, std::span<std::byte>) { return false; }

}  // namespace deltasane::codec
