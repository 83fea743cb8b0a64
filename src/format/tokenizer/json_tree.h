// Untrusted JSON as a tree, within the limits of json_walk.h.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "format/json_walk.h"

namespace deltasane {

nlohmann::json read_json_tree(std::string_view text, std::string_view name,
                              const JsonLimits& limits = {});
nlohmann::json read_json_tree_file(const fs::path& path, const JsonLimits& limits = {});

}  // namespace deltasane
