// JSON text from files, parsed into a value. The library's values are copied, written and compared
// by recursion, so text that is nested deeper than any of our files is refused before it is parsed.
// Large or hostile files that need no value are walked instead: format/json_walk.h.
#pragma once

#include <string_view>

#include "base/error.h"

namespace deltasane {

inline constexpr size_t max_json_depth = 64;

// Brackets and braces outside of strings, whether or not the rest is JSON.
bool nested_deeper(std::string_view json, size_t depth);

// Json: nlohmann::json or ordered_json. A discarded value for what is not JSON or nested too deep.
template <class Json>
Json parse_json(std::string_view text) {
  if (nested_deeper(text, max_json_depth)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

// The same, for text that has to be JSON. `name` is for the message.
template <class Json>
Json parse_json(std::string_view text, std::string_view name) {
  Json value = parse_json<Json>(text);
  if (value.is_discarded())
    fail(Fault::file, name, ": expected JSON, nested at most ", max_json_depth,
         " deep, found something else");
  return value;
}

}  // namespace deltasane
