#include "answers/agreement_rows.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "answers/option_names.h"

namespace deltasane::answers::test {

using Json = nlohmann::json;

std::vector<Row> read_rows(const std::filesystem::path& path) {
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    if (!json["gold"].is_string() || !json["expected"].is_boolean()) continue;
    rows.push_back({{json["gold"], json["pred"],
                     options_from_json(json.value("options", Json::object()).dump())},
                    json["expected"],
                    json.value("kind", "")});
  }
  return rows;
}

}  // namespace deltasane::answers::test
