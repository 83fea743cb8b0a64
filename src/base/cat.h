// cat(parts...) concatenates text, numbers and paths into one string. A floating-point number is
// written with the fewest digits that read back as the same value.
#pragma once

#include <charconv>
#include <concepts>
#include <filesystem>
#include <string>
#include <string_view>

namespace deltasane {

inline void append_part(std::string& text, std::string_view part) { text += part; }
inline void append_part(std::string& text, char part) { text += part; }
inline void append_part(std::string& text, bool part) { text += part ? "true" : "false"; }
inline void append_part(std::string& text, const std::filesystem::path& part) {
  text += part.string();
}
template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void append_part(std::string& text, Number part) {
  char digits[48];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
}
template <class Text>
requires std::convertible_to<Text, std::string_view>
void append_part(std::string& text, const Text& part) { text += std::string_view(part); }

template <class... Part>
std::string cat(const Part&... part) {
  std::string text;
  (append_part(text, part), ...);
  return text;
}

}  // namespace deltasane
