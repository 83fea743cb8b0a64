// The one TOML parser of the program, so that the library is configured in one place.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace deltasane {

// `name` is for messages. Fails with the line where the text is not TOML.
toml::table parse_toml(std::string_view text, const std::string& name);

}  // namespace deltasane
