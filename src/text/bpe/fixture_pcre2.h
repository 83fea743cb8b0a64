// For tests: PCRE2 as the judge of the pre-tokenizers, where it is installed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::test {

// The matches of an expression in a valid UTF-8 text, and what lies between them. Nothing: this
// build has no PCRE2.
std::optional<std::vector<std::string>> pcre2_pieces(const std::string& expression,
                                                     std::string_view text);

}  // namespace deltasane::test
