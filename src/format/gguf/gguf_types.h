// Type codes of GGUF, for its reader and its writer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "format/stored_type.h"

namespace deltasane {

inline constexpr uint32_t gguf_magic = 0x46554747;  // "GGUF"
inline constexpr uint64_t gguf_alignment = 32;
inline constexpr std::string_view gguf_tokens_key = "tokenizer.ggml.tokens";

enum class GgufKind : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  array,
  u64,
  i64,
  f64,
};

struct GgmlType {
  uint32_t number;
  std::string_view name;
  StoredType type;
  uint64_t block = 0, bytes = 0;  // of a foreign type: elements of a block, and its size
};
inline constexpr std::array<GgmlType, 32> ggml_types{{
    {0, "F32", StoredType::f32},
    {1, "F16", StoredType::f16},
    {2, "Q4_0", StoredType::q4_0},
    {3, "Q4_1", StoredType::q4_1},
    {6, "Q5_0", StoredType::q5_0},
    {7, "Q5_1", StoredType::q5_1},
    {8, "Q8_0", StoredType::q8_0},
    {24, "I8", StoredType::i8},
    {25, "I16", StoredType::i16},
    {26, "I32", StoredType::i32},
    {27, "I64", StoredType::i64},
    {28, "F64", StoredType::f64},
    {30, "BF16", StoredType::bf16},
    {9, "Q8_1", StoredType::foreign, 32, 36},
    {10, "Q2_K", StoredType::q2_k},
    {11, "Q3_K", StoredType::q3_k},
    {12, "Q4_K", StoredType::q4_k},
    {13, "Q5_K", StoredType::q5_k},
    {14, "Q6_K", StoredType::q6_k},
    {15, "Q8_K", StoredType::foreign, 256, 292},
    {16, "IQ2_XXS", StoredType::foreign, 256, 66},
    {17, "IQ2_XS", StoredType::foreign, 256, 74},
    {18, "IQ3_XXS", StoredType::foreign, 256, 98},
    {19, "IQ1_S", StoredType::foreign, 256, 50},
    {20, "IQ4_NL", StoredType::iq4_nl},
    {21, "IQ3_S", StoredType::foreign, 256, 110},
    {22, "IQ2_S", StoredType::foreign, 256, 82},
    {23, "IQ4_XS", StoredType::iq4_xs},
    {29, "IQ1_M", StoredType::foreign, 256, 56},
    {34, "TQ1_0", StoredType::foreign, 256, 54},
    {35, "TQ2_0", StoredType::foreign, 256, 66},
    {39, "MXFP4", StoredType::foreign, 32, 17},
}};

}  // namespace deltasane
