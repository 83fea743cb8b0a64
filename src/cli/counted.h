// "1 token", "2 tokens"; "2 tokens at 51.3/s".
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace deltasane::cli {

inline std::string counted(int64_t number, std::string_view one, std::string_view many = {}) {
  if (number == 1) return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

// With how many a second, where there are two or more: the time of one is that of beginning.
inline std::string with_rate(const std::string& counted, int64_t number, double seconds) {
  if (number < 2 || !(seconds > 0)) return counted;
  return fmt::format("{} at {:.1f}/s", counted, double(number) / seconds);
}

}  // namespace deltasane::cli
