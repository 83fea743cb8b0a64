#include "tensor/closeness.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace deltasane {
namespace {

// The largest |x - truth|; infinite where x is not a number but the truth is finite.
double largest_error(std::span<const float> x, std::span<const double> truth) {
  double largest = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double error = std::abs(double(x[i]) - truth[i]);
    largest =
        std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
    if (std::isinf(largest)) break;
  }
  return largest;
}

}  // namespace

std::string Closeness::explanation() const {
  return cat(close ? "close: " : "too far: ", "largest error ", error, ", allowed ", allowed);
}

Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth) {
  require(found.size() == truth.size() && plain.size() == truth.size(),
          "closeness compares tensors of one size");
  double scale = 0;
  for (const double x : truth) {
    require(std::isfinite(x), "closeness needs a finite truth");
    scale = std::max(scale, std::abs(x));
  }
  Closeness result;
  result.error = largest_error(found, truth);
  result.allowed =
      2 * largest_error(plain, truth) + 4 * double(std::numeric_limits<float>::epsilon()) * scale;
  result.close = std::isfinite(result.allowed) && result.error <= result.allowed;
  return result;
}

}  // namespace deltasane
