// Names of precisions, as configurations and flags give them.
#pragma once

#include <string_view>

#include "model/train/rounding.h"

namespace deltasane::train {

Precision precision_named(std::string_view name);  // fp32 or bf16; anything else fails
std::string_view name_of(Precision precision);

}  // namespace deltasane::train
