// Run-time element types, as in files.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/half.h"

namespace deltasane {

enum class DType { f32, f16, bf16 };

constexpr int64_t element_size(DType type) { return type == DType::f32 ? 4 : 2; }
std::string_view name_of(DType type);
DType dtype_named(std::string_view name);  // "f32", "f16", "bf16"; anything else fails

// Calls body.operator()<T>() with the C++ type of `type`.
template <class Body>
auto with_dtype(DType type, Body&& body) {
  switch (type) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f16:
      return body.template operator()<f16>();
    case DType::bf16:
      return body.template operator()<bf16>();
  }
  require(false, "with_dtype knows every element type");
  __builtin_unreachable();
}

}  // namespace deltasane
