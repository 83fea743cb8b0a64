// How the elements of a weight matrix are stored. Plain declarations only.
#pragma once

#include <cstdint>

namespace deltasane::kernel {

enum class WeightType { f32, f16, bf16, q8 };

const char* name_of(WeightType type);

// Bytes of one element of a type whose rows lie side by side.
constexpr int64_t element_bytes(WeightType type) { return type == WeightType::f32 ? 4 : 2; }

}  // namespace deltasane::kernel
