#include "tensor/closeness.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace deltasane {
namespace {

struct Errors {
  double max = 0, rms = 0;
  size_t index = 0;
};
// Of |x - truth|; infinite where x is NaN.
Errors errors_of(std::span<const float> x, std::span<const double> truth) {
  Errors errors;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double off = std::abs(double(x[i]) - truth[i]);
    const double error = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    errors.rms += error * error;
    if (error > errors.max) errors.max = error, errors.index = i;
  }
  if (!truth.empty()) errors.rms = std::sqrt(errors.rms / double(truth.size()));
  return errors;
}

}  // namespace

std::string Closeness::explanation() const {
  return cat(close ? "close: " : "too far: ", "largest error ", error, " at ", index, ", allowed ",
             allowed, "; rms error ", rms_error, ", of the plain reference ", rms_plain_error);
}

Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth, Criterion criterion) {
  require(found.size() == truth.size() && plain.size() == truth.size(),
          "closeness compares tensors of one size");
  double scale = 0;
  for (const double x : truth) {
    require(std::isfinite(x), "closeness needs a finite truth");
    scale = std::max(scale, std::abs(x));
  }
  const Errors errors = errors_of(found, truth), plain_errors = errors_of(plain, truth);
  const double units = 4 * double(std::numeric_limits<float>::epsilon()) * scale;
  const bool by_rms = criterion == Criterion::rms_error;
  Closeness result;
  result.error = errors.max, result.index = errors.index;
  result.rms_error = errors.rms, result.rms_plain_error = plain_errors.rms;
  result.allowed = (by_rms ? 4 : 2) * plain_errors.max + units;
  result.close = std::isfinite(result.allowed) && result.error <= result.allowed &&
                 (!by_rms || result.rms_error <= 2 * result.rms_plain_error + units);
  return result;
}

}  // namespace deltasane
