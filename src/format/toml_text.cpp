#include "format/toml_text.h"

#include "base/error.h"

namespace deltasane {

toml::table parse_toml(std::string_view text, const std::string& name) {
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    fail(Fault::file, name, ":", error.source().begin.line,
         ": expected TOML, found: ", error.description());
  }
}

}  // namespace deltasane
