#include "corpus/rows/row_json.h"

#include "base/cat.h"
#include "base/json/json_text.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace deltasane::corpus {
namespace {

constexpr size_t max_row_bytes = size_t{64} << 20;
constexpr std::string_view names[drop_count] = {"not_utf8",        "not_an_object", "too_large",
                                                "unknown_columns", "not_text",      "unknown_role",
                                                "empty",           "no_answer",     "too_long"};

}  // namespace

std::string_view name_of(Drop drop) { return names[size_t(drop)]; }

nlohmann::json parse_row(std::string_view row, RenderedRow& out) {
  if (row.size() > max_row_bytes) {
    out = dropped(Drop::too_large,
                  cat("expected at most ", max_row_bytes, " bytes, found ", row.size()));
    return nullptr;
  }
  nlohmann::json values = parse_json<nlohmann::json>(row);
  if (values.is_object()) return values;
  out = valid_utf8(row)
            ? dropped(Drop::not_an_object, cat("expected a JSON object, found ", printable(row)))
            : dropped(Drop::not_utf8, cat("expected UTF-8, found ", printable(row)));
  return nullptr;
}

}  // namespace deltasane::corpus
