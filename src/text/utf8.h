// UTF-8 as the Unicode standard defines it (table 3-7): no overlong forms, no surrogates, nothing
// above U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deltasane {

// The first character of a text.
//   complete  a character of `length` bytes
//   partial   the text ends inside a character, of which `length` bytes are there
//   invalid   `length` bytes that begin no character: the longest prefix of one, or a single byte
struct Utf8Step {
  enum class Kind { complete, partial, invalid } kind;
  size_t length;
};

Utf8Step utf8_step(std::string_view text);  // of a text that is not empty
bool valid_utf8(std::string_view text);
bool unicode_scalar(char32_t code_point);  // in range and not a surrogate
void append_utf8(std::string& text, char32_t scalar);
char32_t decode_utf8(std::string_view character);  // the bytes of one complete character

}  // namespace deltasane
