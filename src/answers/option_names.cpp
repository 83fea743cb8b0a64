#include "answers/option_names.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json/json_text.h"

namespace deltasane::answers {
namespace {

using Json = nlohmann::json;

CheckOptions read(const Json& json) {
  CheckOptions options;
  if (!json.is_object()) return options;
  if (json.contains("match_types")) {
    options.latex = options.expressions = options.strings = false;
    for (const std::string type : json["match_types"]) {
      options.latex = options.latex || type == "latex";
      options.expressions = options.expressions || type == "expr";
      options.strings = options.strings || type == "string";
    }
  }
  if (json.contains("strings")) options.choices = json["strings"].get<std::vector<std::string>>();
  options.lowercase_choices = json.value("lowercase", true);
  options.without_anchor = json.value("try_extract_without_anchor", true);
  options.boxed_priority = json.value("boxed_match_priority", 50);
  options.float_rounding = json.value("float_rounding", 6);
  options.numeric_precision = json.value("numeric_precision", 15);
  options.strict = json.value("strict", true);
  options.relation_for_set = json.value("allow_set_relation_comp", false);
  if (json.value("fallback_mode", "first_match") == "no_fallback")
    options.fallback = Fallback::none;
  if (json.value("extraction_mode", "any_match") == "first_match")
    options.mode = ExtractionMode::first_match;
  if (json.contains("normalization") && json["normalization"].is_object())
    options.repair_operators = json["normalization"].value("malformed_operators", true);
  return options;
}

}  // namespace

CheckOptions options_from_json(std::string_view json) {
  try {
    return read(parse_json<Json>(json, "options"));
  } catch (const Json::exception& error) {
    fail(Fault::argument, "options: ", error.what());
  }
}

}  // namespace deltasane::answers
