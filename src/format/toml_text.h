// TOML, read in one place: the library's settings must be the same in the whole program.
#pragma once

#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace deltasane {

// `name` is for messages. Fails with the line where the text is not TOML.
toml::table parse_toml(std::string_view text, const std::string& name);

}  // namespace deltasane
