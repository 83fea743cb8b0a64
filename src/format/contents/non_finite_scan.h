// Infinities and NaN in stored bytes: among the numbers, or the block scales of quantized types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/stored_type.h"

namespace deltasane {

// Whether one of `count` elements, which lie one after another, is not finite as a float. Integers
// and foreign types have none.
bool any_non_finite(StoredType type, const std::byte* from, int64_t count);

}  // namespace deltasane
