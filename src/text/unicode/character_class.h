// What the pre-tokenizers ask about a character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace deltasane::unicode {

// By general category: N, M, Lu or Lt, Ll, Lm or Lo. `space` is the property White_Space. The two
// alternating classes are for ranges of class_ranges.h alone: there the even code points are upper
// case and the odd ones lower case, or the other way round.
enum class CharacterClass : uint8_t {
  other,
  space,
  number,
  mark,
  upper,
  lower,
  letter,
  even_upper,
  odd_upper,
};

// Bytes that are no UTF-8 are characters of one byte and of class `other`; they have no code point.
struct Character {
  static constexpr char32_t no_code_point = 0xFFFFFFFF;
  char32_t code_point;
  uint8_t length;  // bytes
  CharacterClass kind;
  bool han;  // of the script Han

  bool is_letter() const { return kind >= CharacterClass::upper; }
};

// The first character of a text that is not empty.
Character first_character(std::string_view text);

}  // namespace deltasane::unicode
