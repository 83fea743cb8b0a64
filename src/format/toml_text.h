// The one TOML parser of the program, so that the library is configured in one place.
#pragma once

// The library asserts what it checks in the next line and reports as an error of the text.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>
#include <string>
#include <string_view>

namespace deltasane {

// `name` is for messages. Fails with the line where the text is not TOML.
toml::table parse_toml(std::string_view text, const std::string& name);

// What a value is, for messages: "the text 'abc'", "the number 0.5", "a list".
std::string toml_value_text(const toml::node& value);

}  // namespace deltasane
