#include "answers/option_names.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/json_text.h"

namespace deltasane::answers {
namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

// Where there is none, `otherwise`; of its type.
template <class Value>
Value value_at(const Json& json, const char* key, const Value& otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  try {
    return found->get<Value>();
  } catch (const Json::exception&) {
    fail(Fault::argument, "options: ", key, ": expected ", Json(otherwise).type_name(), ", found ",
         found->dump());
  }
}

CheckOptions read(const Json& json) {
  CheckOptions options;
  if (!json.is_object()) return options;
  if (json.contains("match_types")) {
    options.latex = options.expressions = options.strings = false;
    for (const std::string& type : value_at(json, "match_types", Names())) {
      options.latex = options.latex || type == "latex";
      options.expressions = options.expressions || type == "expr";
      options.strings = options.strings || type == "string";
    }
  }
  options.choices = value_at(json, "strings", options.choices);
  options.lowercase_choices = value_at(json, "lowercase", true);
  options.without_anchor = value_at(json, "try_extract_without_anchor", true);
  options.boxed_priority = value_at(json, "boxed_match_priority", 50);
  options.float_rounding = value_at(json, "float_rounding", 6);
  options.numeric_precision = value_at(json, "numeric_precision", 15);
  options.strict = value_at(json, "strict", true);
  options.relation_for_set = value_at(json, "allow_set_relation_comp", false);
  if (value_at(json, "fallback_mode", std::string("first_match")) == "no_fallback")
    options.fallback = Fallback::none;
  if (value_at(json, "extraction_mode", std::string("any_match")) == "first_match")
    options.mode = ExtractionMode::first_match;
  if (json.contains("normalization") && json["normalization"].is_object())
    options.repair_operators = value_at(json["normalization"], "malformed_operators", true);
  return options;
}

}  // namespace

CheckOptions options_from_json(std::string_view json) {
  return read(parse_json<Json>(json, "options"));
}

}  // namespace deltasane::answers
