#include "probe/growth.h"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace deltasane::probe {
namespace {

struct Line {
  double at_first, slope;  // t counted from the first point
  double operator()(double t) const { return at_first + slope * t; }
};

Line weighted_line(std::span<const double> t, std::span<const double> y,
                   std::span<const double> weight) {
  double sum = 0, mean_t = 0, mean_y = 0, cross = 0, square = 0;
  for (size_t i = 0; i < t.size(); ++i)
    sum += weight[i], mean_t += weight[i] * t[i], mean_y += weight[i] * y[i];
  mean_t /= sum, mean_y /= sum;
  for (size_t i = 0; i < t.size(); ++i) {
    cross += weight[i] * (t[i] - mean_t) * (y[i] - mean_y);
    square += weight[i] * (t[i] - mean_t) * (t[i] - mean_t);
  }
  const double slope = square > 0 ? cross / square : 0;
  return {mean_y - slope * mean_t, slope};
}

double root_mean_square(std::span<const double> t, std::span<const double> logs, auto log_fit) {
  double squares = 0;
  for (size_t i = 0; i < t.size(); ++i) squares += std::pow(log_fit(t[i]) - logs[i], 2);
  return std::sqrt(squares / double(t.size()));
}

}  // namespace

std::string_view name_of(GrowthLaw law) {
  switch (law) {
    case GrowthLaw::bounded:
      return "bounded";
    case GrowthLaw::linear:
      return "linear";
    case GrowthLaw::exponential:
      return "exponential";
  }
  return "?";
}

Growth growth_of(std::span<const int64_t> positions, std::span<const double> values) {
  require(positions.size() == values.size(), "each value has a position");
  std::vector<double> t, y;
  for (size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i]) && values[i] > 0)
      t.push_back(double(positions[i])), y.push_back(values[i]);
  Growth growth;
  if (int64_t(t.size()) < least_points) return growth;
  // By position, not by count: rows need not be evenly spaced.
  size_t from = 0;
  while (t.size() - from > size_t(least_points / 2) && t[from] < t.back() / 4) ++from;
  t.erase(t.begin(), t.begin() + int64_t(from)), y.erase(y.begin(), y.begin() + int64_t(from));
  const double first = t.front();
  std::vector<double> logs, ones(t.size(), 1.0), weights;
  // Scaled, so that weights of huge values neither vanish nor overflow.
  const double scale = y.back();
  for (size_t i = 0; i < t.size(); ++i) {
    t[i] -= first, y[i] /= scale;
    logs.push_back(std::log(y[i]));
    weights.push_back(1 / (y[i] * y[i]));
  }
  const Line linear = weighted_line(t, y, weights), logarithm = weighted_line(t, logs, ones);
  const double linear_misfit = root_mean_square(t, logs, [&](double at) {
    return std::log(std::max(linear(at), std::numeric_limits<double>::min()));
  });
  const double exponential_misfit = root_mean_square(t, logs, logarithm);
  const double end = t.back();
  const bool is_linear = linear_misfit <= exponential_misfit;
  growth.misfit = is_linear ? linear_misfit : exponential_misfit;
  growth.now = scale * (is_linear ? linear(end) : std::exp(logarithm(end)));
  const double rise = is_linear ? linear(end) / linear(0) : std::exp(logarithm.slope * end);
  // A line that begins below zero rises without limit.
  if (!(rise >= least_rise) && !(is_linear && linear(0) <= 0 && linear.slope > 0)) return growth;
  growth.law = is_linear ? GrowthLaw::linear : GrowthLaw::exponential;
  growth.rate = is_linear ? linear.slope * scale : logarithm.slope;
  growth.doubling = is_linear ? growth.now / growth.rate : std::log(2.0) / growth.rate;
  return growth;
}

double tokens_until(const Growth& growth, double limit) {
  if (growth.law == GrowthLaw::bounded || growth.now >= limit) return 0;
  if (growth.law == GrowthLaw::linear) return (limit - growth.now) / growth.rate;
  return std::log(limit / growth.now) / growth.rate;
}

}  // namespace deltasane::probe
