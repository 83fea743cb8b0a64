// How a quantity grows with the position: not at all, linearly or exponentially.
//
// Both laws are fitted by least squares of the relative error, so that their misfits can be
// compared:
//
//     linear        y = c + rate t          minimises sum ((c + rate t - y) / y)^2
//     exponential   y = c exp(rate t)       minimises sum (log c + rate t - log y)^2
//
// The law with the smaller misfit (root mean square of log(fit / y)) is taken. The fit covers the
// last three quarters of the way; the last half or quarter is taken instead where it fits three
// times better, because a transient has ended late. It counts as growth when the fit rises by a
// sixth or more of what a linear growth from the beginning would (by half over three quarters of
// the way, by 1/18 over the last quarter) and by three times its misfit; otherwise y is bounded.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace deltasane::probe {

enum class GrowthLaw { bounded, linear, exponential };
std::string_view name_of(GrowthLaw law);

inline constexpr int64_t least_points = 6;  // with fewer nothing is said: bounded

struct Growth {
  GrowthLaw law = GrowthLaw::bounded;
  double rate = 0;      // per token: of y (linear), of log y (exponential); 0: bounded
  double doubling = 0;  // tokens until y doubles, from the last point on; 0: never
  double misfit = 0;    // relative
  double now = 0;       // the fit at the last point
  friend bool operator==(const Growth&, const Growth&) = default;
};

// Points that are not finite or not positive are left out.
Growth growth_of(std::span<const int64_t> positions, std::span<const double> values);

// Tokens from the last point on until the fit reaches a limit; 0: never, or it has.
double tokens_until(const Growth& growth, double limit);

}  // namespace deltasane::probe
