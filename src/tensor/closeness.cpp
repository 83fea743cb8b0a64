#include "tensor/closeness.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace deltasane {
namespace {

struct Errors {
  double largest = 0, usual = 0;
  size_t place = 0;
};
// Of |x - truth|; infinite where x is not a number but the truth is finite.
Errors errors_of(std::span<const float> x, std::span<const double> truth) {
  Errors errors;
  for (size_t i = 0; i < truth.size(); ++i) {
    const double off = std::abs(double(x[i]) - truth[i]);
    const double error = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
    errors.usual += error * error;
    if (error > errors.largest) errors.largest = error, errors.place = i;
  }
  if (!truth.empty()) errors.usual = std::sqrt(errors.usual / double(truth.size()));
  return errors;
}

}  // namespace

std::string Closeness::explanation() const {
  return cat(close ? "close: " : "too far: ", "largest error ", error, " at ", place, ", allowed ",
             allowed, "; usual error ", usual_error, ", of plain arithmetic ", usual_plain_error);
}

Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth, Judged judged) {
  require(found.size() == truth.size() && plain.size() == truth.size(),
          "closeness compares tensors of one size");
  double scale = 0;
  for (const double x : truth) {
    require(std::isfinite(x), "closeness needs a finite truth");
    scale = std::max(scale, std::abs(x));
  }
  const Errors errors = errors_of(found, truth), plain_errors = errors_of(plain, truth);
  const double units = 4 * double(std::numeric_limits<float>::epsilon()) * scale;
  const bool model = judged == Judged::as_model;
  Closeness result;
  result.error = errors.largest, result.place = errors.place;
  result.usual_error = errors.usual, result.usual_plain_error = plain_errors.usual;
  result.allowed = (model ? 4 : 2) * plain_errors.largest + units;
  result.close = std::isfinite(result.allowed) && result.error <= result.allowed &&
                 (!model || result.usual_error <= 2 * result.usual_plain_error + units);
  return result;
}

}  // namespace deltasane
