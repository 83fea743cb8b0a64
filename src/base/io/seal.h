// A JSON object with a checksum of its own as the last member, "xxh3", so that a changed digit is
// found: a line of a journal, or a whole file.
#pragma once

#include <string>
#include <string_view>

namespace deltasane {

// `object`: on one line without an end of line, or as dump(2) writes it with one behind it.
std::string sealed(std::string_view object);

bool has_seal(std::string_view text);  // right or wrong

// The object without its seal. Fails, naming `where`, if the seal is missing or does not match.
std::string unsealed(std::string_view text, std::string_view where);

}  // namespace deltasane
