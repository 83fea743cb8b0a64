// Floats to ggml's q4_k, q5_k and q6_k (k_quants.h has their layouts), by weighted least squares.
//
// Each sub-block first gets the real scale (and minimum) that minimizes
//
//   sum of h (x - x')^2,    h = importance (a + |x|),    a = root mean square of the sub-block
//
// over some ways to round its elements. Scales and minimums are then rounded to the 6 or 8 bits that
// a super-block has for them, to one of the neighbours that gives the smallest sum. That large
// weights count more, and are followed more closely, is llama.cpp's rule.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "format/stored_type.h"

namespace deltasane {

// As quantize_from_float (quantize/quantize.h), to such a type. importance: a positive number for
// each element, or none.
void quantize_k_quant(StoredType type, std::span<const float> in, std::span<const float> importance,
                      std::byte* out, std::string_view what);

}  // namespace deltasane
