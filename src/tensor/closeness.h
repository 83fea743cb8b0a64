// How a computed tensor is judged against the truth.
//
// The truth is the definition evaluated in double. `plain` is the same definition in the precision
// under test: what its arithmetic costs with no tricks. A result may be off by twice that, plus
// four units in the last place of the largest value; measured as the largest absolute error. So
// there is no tolerance to set by hand. Anything that is not finite where the truth is, fails.
//
// A whole model has places that magnify errors, such as the norm of a head that has hardly read
// anything, and its largest error is what one of them makes of a single rounding: two computations
// of the same quality may be far apart there. So of a model the usual error (root of the mean of
// squares) may be twice that of `plain`, and the largest four times its largest.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace deltasane {

struct Closeness {
  bool close = false;
  double error = 0, allowed = 0;                  // largest absolute error; what was allowed
  size_t place = 0;                               // of the largest error
  double usual_error = 0, usual_plain_error = 0;  // root of the mean of squares
  std::string explanation() const;
};

enum class Judged { as_operator, as_model };
Closeness closeness(std::span<const float> found, std::span<const float> plain,
                    std::span<const double> truth, Judged judged = Judged::as_operator);

}  // namespace deltasane
