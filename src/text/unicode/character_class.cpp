#include "text/unicode/character_class.h"

#include <array>
#include <iterator>
#include <memory>

#include "text/unicode/class_ranges.h"
#include "text/utf8.h"

namespace deltasane::unicode {
namespace {

constexpr uint8_t han_flag = 16;

// The class of every code point, with the flag. 1.1 MB, of which a text touches a few pages.
class ClassTable {
 public:
  ClassTable() : of_(std::make_unique<std::array<uint8_t, 0x110000>>()) {
    const size_t ranges = std::size(class_ranges);
    for (size_t i = 0; i < ranges; ++i) {
      const uint32_t begin = class_ranges[i] >> 8;
      const uint32_t end = i + 1 < ranges ? class_ranges[i + 1] >> 8 : 0x110000;
      for (uint32_t code = begin; code < end; ++code) (*of_)[code] = value(class_ranges[i], code);
    }
  }
  uint8_t operator[](char32_t code) const { return (*of_)[code]; }

 private:
  static uint8_t value(uint32_t range, uint32_t code) {
    const auto kind = CharacterClass(range & 15);
    if (kind != CharacterClass::even_upper && kind != CharacterClass::odd_upper)
      return uint8_t(range & 0xFF);
    const bool upper = (code % 2 == 0) == (kind == CharacterClass::even_upper);
    return uint8_t(upper ? CharacterClass::upper : CharacterClass::lower);
  }

  std::unique_ptr<std::array<uint8_t, 0x110000>> of_;
};

}  // namespace

Character first_character(std::string_view text) {
  static const ClassTable classes;
  const auto known = [](char32_t code, size_t length) {
    const uint8_t value = classes[code];
    return Character{code, uint8_t(length), CharacterClass(value & 15), (value & han_flag) != 0};
  };
  if (uint8_t(text[0]) < 0x80) return known(char32_t(text[0]), 1);
  const Utf8Step step = utf8_step(text);
  if (step.kind != Utf8Step::Kind::complete)
    return {Character::no_code_point, 1, CharacterClass::other, false};
  return known(decode_utf8(text.substr(0, step.length)), step.length);
}

}  // namespace deltasane::unicode
