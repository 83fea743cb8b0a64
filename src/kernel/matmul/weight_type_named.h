// The weight type that a person names.
#pragma once

#include <string_view>

#include "kernel/matmul/weight_type.h"

namespace deltasane::kernel {

// By any of its names (base/type_name.h). Anything else fails, and the message begins with `what`.
WeightType weight_type_named(std::string_view name, std::string_view what);

}  // namespace deltasane::kernel
