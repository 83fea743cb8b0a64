#include "cli/duration.h"

#include <fmt/format.h>
#include <cmath>
#include <cstdint>

namespace deltasane::cli {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e9) return "?";  // nothing was measured yet
  const auto whole = int64_t(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

}  // namespace deltasane::cli
