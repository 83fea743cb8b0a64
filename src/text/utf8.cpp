#include "text/utf8.h"

#include <cstdint>

#include "base/error.h"

namespace deltasane {
namespace {

// By lead byte: the length of the character and the range of its second byte. Later bytes are
// always 80..BF.
struct Lead {
  uint8_t length, second_low, second_high;
};

constexpr Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  require(!text.empty(), "utf8_step is given a byte");
  const Lead lead = lead_of(uint8_t(text[0]));
  if (lead.length == 0) return {Utf8Step::Kind::invalid, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Step::Kind::partial, i};
    const auto byte = uint8_t(text[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80, high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Step::Kind::invalid, i};
  }
  return {Utf8Step::Kind::complete, lead.length};
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Step::Kind::complete) return false;
    text.remove_prefix(step.length);
  }
  return true;
}

bool unicode_scalar(char32_t code_point) {
  return code_point < 0xD800 || (code_point > 0xDFFF && code_point <= 0x10FFFF);
}

void append_utf8(std::string& text, char32_t scalar) {
  require(unicode_scalar(scalar), "append_utf8 is given a Unicode scalar value");
  const auto tail = [&](int shift) { text += char(0x80 | (scalar >> shift & 0x3F)); };
  if (scalar < 0x80) {
    text += char(scalar);
  } else if (scalar < 0x800) {
    text += char(0xC0 | scalar >> 6);
    tail(0);
  } else if (scalar < 0x10000) {
    text += char(0xE0 | scalar >> 12);
    tail(6), tail(0);
  } else {
    text += char(0xF0 | scalar >> 18);
    tail(12), tail(6), tail(0);
  }
}

char32_t decode_utf8(std::string_view character) {
  const auto lead = uint8_t(character[0]);
  if (character.size() == 1) return lead;
  char32_t scalar = lead & (0x7Fu >> character.size());
  for (const char byte : character.substr(1)) scalar = scalar << 6 | (uint8_t(byte) & 0x3Fu);
  return scalar;
}

}  // namespace deltasane
