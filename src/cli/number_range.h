// What flags take, told in their own terms: "expected 1 to 1000, found 0".
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace deltasane::cli {

inline CLI::Validator number_range(const std::string& expected,
                                   const std::function<bool(double)>& holds) {
  return CLI::Validator(
      [=](std::string& text) {
        char* end = nullptr;
        const double found = std::strtod(text.c_str(), &end);
        const bool is_number = !text.empty() && *end == '\0';
        return is_number && holds(found) ? std::string()
                                         : fmt::format("expected {}, found {}", expected, text);
      },
      "");
}

inline CLI::Validator at_least(double low) {
  return number_range(fmt::format("{:.0f} or more, below 2^63", low),
                      [=](double x) { return x >= low && x < 9.2e18; });
}
inline CLI::Validator above(double low) {
  return number_range(fmt::format("a number above {:.0f}", low), [=](double x) { return x > low; });
}
inline CLI::Validator between(double low, double high) {
  return number_range(fmt::format("{:.0f} to {:.0f}", low, high),
                      [=](double x) { return x >= low && x <= high; });
}

// Numbers that are counted or are names of themselves, up to 63 or 64 bits.
inline CLI::Validator whole_number(uint64_t low, int bits = 63) {
  return CLI::Validator(
      [=](std::string& text) {
        uint64_t found = 0;
        const char* const end = text.data() + text.size();
        const auto [at, error] = std::from_chars(text.data(), end, found);
        const bool fits = bits == 64 || found >> 63 == 0;
        return error == std::errc() && at == end && found >= low && fits
                   ? std::string()
                   : fmt::format("expected a whole number, {} or more and below 2^{}, found {}", low,
                                 bits, text.empty() ? "nothing" : text);
      },
      "");
}

inline CLI::Validator one_of(const std::vector<std::string>& words) {
  std::string list = words.front();
  for (size_t i = 1; i < words.size(); ++i)
    list += fmt::format("{}{}", i + 1 == words.size() ? " or " : ", ", words[i]);
  return CLI::Validator(
      [=](std::string& text) {
        for (const std::string& word : words)
          if (text == word) return std::string();
        return fmt::format("expected {}, found '{}'", list, text);
      },
      "");
}

}  // namespace deltasane::cli
