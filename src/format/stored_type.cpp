#include "format/stored_type.h"

#include <array>

#include "base/checked.h"
#include "base/words/type_name.h"

namespace deltasane {
namespace {

constexpr std::array<StoredLayout, size_t(StoredType::foreign) + 1> layouts{{
    {"f64", 1, 8, 8},    {"f32", 1, 4, 4},    {"f16", 1, 2, 2},     {"bf16", 1, 2, 2},
    {"i64", 1, 8, 8},    {"i32", 1, 4, 4},    {"i16", 1, 2, 2},     {"i8", 1, 1, 1},
    {"u64", 1, 8, 8},    {"u32", 1, 4, 4},    {"u16", 1, 2, 2},     {"u8", 1, 1, 1},
    {"bool", 1, 1, 1},   {"q4_0", 32, 18, 2}, {"q4_1", 32, 20, 2},  {"q5_0", 32, 22, 2},
    {"q5_1", 32, 24, 2}, {"q8_0", 32, 34, 2}, {"q2_k", 256, 84, 2}, {"q3_k", 256, 110, 2},
    {"q4_k", 256, 144, 2}, {"q5_k", 256, 176, 2}, {"q6_k", 256, 210, 2}, {"iq4_nl", 32, 18, 2},
    {"iq4_xs", 256, 136, 2}, {"foreign", 1, 0, 1},
}};

}  // namespace

StoredLayout layout_of(StoredType type) { return layouts[size_t(type)]; }

std::string_view name_of(StoredType type) { return layout_of(type).name; }

StoredType stored_type_named(std::string_view name) {
  const std::string wanted = type_name(name);
  for (size_t i = 0; i < size_t(StoredType::foreign); ++i)
    if (layouts[i].name == wanted) return StoredType(i);
  fail(Fault::usage, "stored type: expected f32, f16, bf16, q8_0 or another known type, found '",
       name, "'");
}

StoredType stored_type_of(DType type) {
  switch (type) {
    case DType::f32:
      return StoredType::f32;
    case DType::f16:
      return StoredType::f16;
    case DType::bf16:
      return StoredType::bf16;
  }
  require(false, "stored_type_of knows every element type");
  return StoredType::foreign;
}

std::optional<DType> dtype_of(StoredType type) {
  if (type == StoredType::f32) return DType::f32;
  if (type == StoredType::f16) return DType::f16;
  if (type == StoredType::bf16) return DType::bf16;
  return std::nullopt;
}

uint64_t stored_bytes(StoredType type, uint64_t elements, std::string_view what) {
  const StoredLayout layout = layout_of(type);
  if (elements % uint64_t(layout.block) != 0)
    fail(Fault::file, what, ": expected a multiple of ", layout.block, " elements of ", layout.name,
         ", found ", elements);
  return checked_multiply(elements / uint64_t(layout.block), uint64_t(layout.bytes), what);
}

}  // namespace deltasane
