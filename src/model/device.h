// Which machine a model runs on: "cpu", "cuda" (the first GPU) or "cuda:N".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deltasane {

struct Device {
  std::optional<int> gpu;  // none: the CPU
  friend bool operator==(const Device&, const Device&) = default;
};

// Anything else fails, and so does a GPU where this build has no CUDA.
Device device_named(std::string_view name);
std::string to_string(const Device& device);

}  // namespace deltasane
