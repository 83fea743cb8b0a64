#include "text/bpe/byte_letters.h"

#include <array>

#include "text/utf8.h"

namespace deltasane {
namespace {

constexpr bool printable_latin(int byte) {
  return (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

constexpr std::array<char32_t, 256> letter_of = [] {
  std::array<char32_t, 256> letters{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte)
    letters[size_t(byte)] = printable_latin(byte) ? char32_t(byte) : next++;
  return letters;
}();

constexpr std::array<int16_t, 0x144> byte_of = [] {
  std::array<int16_t, 0x144> bytes{};
  for (int16_t& byte : bytes) byte = -1;
  for (int byte = 0; byte < 256; ++byte) bytes[letter_of[size_t(byte)]] = int16_t(byte);
  return bytes;
}();

}  // namespace

std::string letters_of_bytes(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) append_utf8(letters, letter_of[uint8_t(byte)]);
  return letters;
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string bytes;
  while (!letters.empty()) {
    const Utf8Step step = utf8_step(letters);
    if (step.kind != Utf8Step::Kind::complete) return std::nullopt;
    const char32_t letter = decode_utf8(letters.substr(0, step.length));
    if (letter >= byte_of.size() || byte_of[letter] < 0) return std::nullopt;
    bytes += char(byte_of[letter]);
    letters.remove_prefix(step.length);
  }
  return bytes;
}

}  // namespace deltasane
