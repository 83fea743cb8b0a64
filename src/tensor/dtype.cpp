#include "tensor/dtype.h"

#include <array>
#include <utility>

namespace deltasane {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 3> names{
    {{DType::f32, "f32"}, {DType::f16, "f16"}, {DType::bf16, "bf16"}}};

}  // namespace

std::string_view name_of(DType type) {
  for (const auto& [known, name] : names)
    if (known == type) return name;
  require(false, "name_of knows every element type");
  return {};
}

DType dtype_named(std::string_view name) {
  for (const auto& [type, known] : names)
    if (known == name) return type;
  fail(Fault::usage, "element type: expected f32, f16 or bf16, found '", name, "'");
}

}  // namespace deltasane
