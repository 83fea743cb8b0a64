// How the elements of a weight matrix are stored. Plain declarations only.
#pragma once

#include <cstdint>

namespace deltasane::kernel {

enum class WeightType { f32, f16, bf16, q8 };

const char* name_of(WeightType type);

// Bytes of one element; not for q8, which has blocks.
constexpr int64_t element_bytes(WeightType type) { return type == WeightType::f32 ? 4 : 2; }

}  // namespace deltasane::kernel
