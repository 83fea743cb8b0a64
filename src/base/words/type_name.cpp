#include "base/words/type_name.h"

#include <algorithm>

namespace deltasane {

std::string type_name(std::string_view given) {
  struct Alias {
    std::string_view other, name;
  };
  constexpr Alias aliases[]{{"q8", "q8_0"},      {"q4", "q4_0"},      {"fp32", "f32"},
                            {"float32", "f32"},  {"float", "f32"},    {"fp16", "f16"},
                            {"float16", "f16"},  {"half", "f16"},     {"bfloat16", "bf16"}};
  std::string name(given);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  const auto* const alias = std::ranges::find(aliases, name, &Alias::other);
  return alias == std::end(aliases) ? name : std::string(alias->name);
}

}  // namespace deltasane
