// ggml's quantised types of larger blocks, to floats. A super-block has 256 elements in sub-blocks
// of 16 or 32, with a small scale s (and a small minimum m) each; d, d_min are f16.
//
//   q2_k    x = d s q - d_min m    s, m: 4 bits, q: 2 bits, 16 elements
//   q3_k    x = d (s - 32) q       s: 6 bits, q: -4..3, 16 elements
//   q4_k    x = d s q - d_min m    s, m: 6 bits, q: 4 bits, 32 elements
//   q5_k    x = d s q - d_min m    s, m: 6 bits, q: 5 bits, 32 elements
//   q6_k    x = d s q              s: signed byte, q: -32..31, 16 elements
//   iq4_xs  x = d (s - 32) t[q]    s: 6 bits, q: 4 bits, 32 elements; t: a table of 16 values
//   iq4_nl  x = d t[q]             blocks of 32, without s
#pragma once

#include <cstddef>
#include <span>

#include "format/stored_type.h"

namespace deltasane {

// As dequantize_to_float (dequantize.h), of such a type.
void dequantize_k_quant(StoredType type, const std::byte* from, std::span<float> out);

}  // namespace deltasane
