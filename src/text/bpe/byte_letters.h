// GPT-2's way to write bytes as printable characters: each byte is one letter. The printable bytes
// of Latin-1 are themselves; the others are U+0100 and up, in order (a space is U+0120).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deltasane {

std::string letters_of_bytes(std::string_view bytes);

// Nothing if there is a character that is no such letter.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace deltasane
