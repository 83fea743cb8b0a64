// Ranges of numbers that flags take, told in their own terms: "expected 1 to 1000, found 0".
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <functional>
#include <string>

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

}  // namespace deltasane::cli
