// Element types as files store them: numbers, and blocks of 32 or 256 quantised numbers as ggml lays
// them out. A row of a block type holds whole blocks.
//
//   q4_0  f16 d, 16 bytes of 4-bit q          x = d (q - 8)
//   q4_1  f16 d, f16 m, 16 bytes              x = d q + m
//   q5_0  f16 d, 4 bytes of fifth bits, 16    x = d (q - 16)
//   q5_1  f16 d, f16 m, 4 bytes, 16 bytes     x = d q + m
//   q8_0  f16 d, 32 signed bytes              x = d q
//
// The larger blocks, q2_k to q6_k, iq4_nl and iq4_xs, are in k_quants/k_quants.h.
//
// `foreign` is every unsupported type of a container; such a tensor may be in a file, and only
// reading it fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace deltasane {

enum class StoredType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  foreign,
};

struct StoredLayout {
  std::string_view name;
  int64_t block;      // elements in a block; 1 for plain numbers
  int64_t bytes;      // bytes of a block
  int64_t alignment;  // of a block's first byte, for zero-copy use
};

StoredLayout layout_of(StoredType type);
std::string_view name_of(StoredType type);
StoredType stored_type_named(std::string_view name);  // any of its names; another fails
StoredType stored_type_of(DType type);
std::optional<DType> dtype_of(StoredType type);  // none for anything but f32, f16 and bf16

// The size of `elements` in bytes. Fails if the count is not a multiple of the block or too large.
uint64_t stored_bytes(StoredType type, uint64_t elements, std::string_view what);

}  // namespace deltasane
