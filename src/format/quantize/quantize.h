// Converts floats to stored elements: f32, f16 and bf16 by rounding to nearest, ties to even; q8_0
// and q4_0 by ggml's rule, bit for bit:
//
//   q8_0   d = max|x| / 127                  q = round(x / d), halves away from zero
//   q4_0   d = (the x of largest |x|) / -8   q = min(15, floor(x / d + 8.5))
//
// where x / d is x times the float 1/d, and d is rounded to f16 only when it is stored; q4_k, q5_k and
// q6_k by a rule of our own (k_quants/quantize_k_quant.h).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "format/stored_type.h"

namespace deltasane {

inline constexpr std::string_view written_types_text =
    "f32, f16, bf16, q8_0, q6_k, q5_k, q4_k or q4_0";

// Whether the importance of elements changes how they are rounded.
constexpr bool uses_importance(StoredType type) {
  return type == StoredType::q4_k || type == StoredType::q5_k || type == StoredType::q6_k;
}

// out has stored_bytes(type, in.size()) bytes. A finite number that f16 cannot hold, or a number
// that is not finite in a block type, fails and names `what` and the element.
// importance: for each element, what an error of it costs; of use to q4_k, q5_k and q6_k alone.
void quantize_from_float(StoredType type, std::span<const float> in, std::span<std::byte> out,
                         std::string_view what, std::span<const float> importance = {});

}  // namespace deltasane
