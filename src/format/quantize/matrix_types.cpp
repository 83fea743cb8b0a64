#include "format/quantize/matrix_types.h"

#include <array>

#include "base/error.h"
#include "base/words/type_name.h"

namespace deltasane {
namespace {

struct NamedTypes {
  std::string_view name;
  MatrixTypes types;
  uint32_t file_type;
};

const std::array<NamedTypes, 10>& all_named() {
  static const std::array<NamedTypes, 10> all{{
      {"f32", StoredType::f32, 0},
      {"f16", StoredType::f16, 1},
      {"bf16", StoredType::bf16, 32},
      {"q8_0", StoredType::q8_0, 7},
      {"q6_k", StoredType::q6_k, 18},
      {"q5_k", StoredType::q5_k, 16},
      {"q5_k_m", {StoredType::q5_k, StoredType::q6_k}, 17},
      {"q4_k", StoredType::q4_k, 14},
      {"q4_k_m", {StoredType::q4_k, StoredType::q6_k}, 15},
      {"q4_0", StoredType::q4_0, 2},
  }};
  return all;
}

}  // namespace

MatrixTypes matrix_types_named(std::string_view name) {
  const std::string wanted = type_name(name);
  std::string names;
  for (const NamedTypes& known : all_named()) {
    if (known.name == wanted) return known.types;
    names += cat(names.empty() ? "" : ", ", known.name);
  }
  fail(Fault::usage, "type: expected one of ", names, ", found '", name, "'");
}

std::string name_of(const MatrixTypes& types) {
  for (const NamedTypes& known : all_named())
    if (known.types == types) return std::string(known.name);
  if (types.most == types.sensitive) return std::string(name_of(types.most));
  return cat(name_of(types.most), " with ", name_of(types.sensitive));
}

uint32_t gguf_file_type(const MatrixTypes& types) {
  constexpr uint32_t guessed = 1024;  // what llama.cpp writes for mixtures without a number
  for (const NamedTypes& known : all_named())
    if (known.types == types) return known.file_type;
  return guessed;
}

bool sensitive_layer(int64_t layer, int64_t layers) {
  const int64_t eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

StoredType type_of_rows(StoredType type, int64_t length) {
  if (length % layout_of(type).block == 0) return type;
  return length % layout_of(StoredType::q8_0).block == 0 ? StoredType::q8_0 : StoredType::f16;
}

}  // namespace deltasane
