// A row's JSON, checked before it is used.
#pragma once

#include <nlohmann/json.hpp>

#include "corpus/rows/render.h"

namespace deltasane::corpus {

// Null where the row is no object; `out` says why then.
nlohmann::json parse_row(std::string_view row, RenderedRow& out);

inline RenderedRow dropped(Drop drop, std::string found) { return {{}, drop, std::move(found)}; }

}  // namespace deltasane::corpus
