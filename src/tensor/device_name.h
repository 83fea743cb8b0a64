// What `--device` may say.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace deltasane {

// "cpu": none; "cuda": 0; "cuda:1": 1. Anything else fails.
inline std::optional<int> gpu_named(std::string_view device) {
  if (device == "cpu") return std::nullopt;
  if (device == "cuda") return 0;
  constexpr std::string_view prefix = "cuda:";
  if (device.starts_with(prefix)) {
    int index = -1;
    const std::string_view digits = device.substr(prefix.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() && index >= 0) return index;
  }
  fail(Fault::usage, "device: expected cpu, cuda or cuda:N, found '", device, "'");
}

}  // namespace deltasane
