// Converts stored elements to floats; exact where the value is representable.
#pragma once

#include <cstddef>
#include <span>

#include "format/stored_type.h"

namespace deltasane {

// `bytes` holds exactly out.size() elements of `type`, at any alignment. `type` is not foreign.
void dequantize_to_float(StoredType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace deltasane
