#include "eval/answers/agreement_rows.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace deltasane::answers::test {

namespace {

using Json = nlohmann::json;

CheckOptions read_options(const Json& json) {
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

std::vector<Row> read_rows(const std::filesystem::path& path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    if (!json["gold"].is_string() || !json["expected"].is_boolean()) continue;
    rows.push_back(
        {{json["gold"], json["pred"], read_options(json.value("options", Json::object()))},
         json["expected"],
         json.value("kind", "")});
  }
  return rows;
}

}  // namespace deltasane::answers::test
