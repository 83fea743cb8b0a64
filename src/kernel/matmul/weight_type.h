// How the elements of a weight matrix are stored. Plain declarations only.
#pragma once

#include <cstdint>

namespace deltasane::kernel {

enum class WeightType { f32, f16, bf16, q8, q6_k, q5_k, q4_k, q4 };

inline constexpr WeightType weight_types[]{WeightType::f32,  WeightType::f16,  WeightType::bf16,
                                           WeightType::q8,   WeightType::q6_k, WeightType::q5_k,
                                           WeightType::q4_k, WeightType::q4};
inline constexpr const char* weight_types_text = "f32, f16, bf16, q8, q6_k, q5_k, q4_k or q4";

const char* name_of(WeightType type);

// Whether it has blocks of 8-bit or lower numbers, which multiply inputs rounded to 8 bits.
constexpr bool is_quantized(WeightType type) {
  return type != WeightType::f32 && type != WeightType::f16 && type != WeightType::bf16;
}

// Bytes of one element; not for quantized types, which have blocks.
constexpr int64_t element_bytes(WeightType type) { return type == WeightType::f32 ? 4 : 2; }

}  // namespace deltasane::kernel
