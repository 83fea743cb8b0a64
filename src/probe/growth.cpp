#include "probe/growth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
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

// `begin` is the part of the way that lies before the points.
Growth fitted(std::span<const double> positions, std::span<const double> values, double begin) {
  Growth growth;
  // Scaled, so that weights of huge values neither vanish nor overflow.
  const double scale = values.back();
  std::vector<double> t, y, logs, weights;
  for (size_t i = 0; i < values.size(); ++i) {
    t.push_back(positions[i] - positions[0]), y.push_back(values[i] / scale);
    logs.push_back(std::log(y[i]));
    weights.push_back(1 / (y[i] * y[i]));
  }
  const std::vector<double> ones(t.size(), 1.0);
  const Line linear = weighted_line(t, y, weights), logarithm = weighted_line(t, logs, ones);
  const double linear_misfit = root_mean_square(t, logs, [&](double at) {
    return std::log(std::max(linear(at), std::numeric_limits<double>::min()));
  });
  const double exponential_misfit = root_mean_square(t, logs, logarithm);
  const double end = t.back();
  const bool is_linear = linear_misfit <= exponential_misfit;
  growth.misfit = is_linear ? linear_misfit : exponential_misfit;
  growth.now = scale * (is_linear ? linear(end) : std::exp(logarithm(end)));
  // A line that begins below zero rises without limit.
  const double rise = !is_linear         ? std::exp(logarithm.slope * end)
                      : linear(0) > 0    ? linear(end) / linear(0)
                      : linear.slope > 0 ? std::numeric_limits<double>::infinity()
                                         : 0;
  const double enough = std::max((1 / begin - 1) / 6, 3 * growth.misfit);
  if (!(rise - 1 >= enough)) return growth;
  growth.law = is_linear ? GrowthLaw::linear : GrowthLaw::exponential;
  growth.rate = is_linear ? linear.slope * scale : logarithm.slope;
  growth.doubling = is_linear ? growth.now / growth.rate : std::log(2.0) / growth.rate;
  return growth;
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
  std::optional<Growth> best;
  for (const double begin : {0.25, 0.5, 0.75}) {
    // By position, not by count: rows need not be evenly spaced.
    const auto from =
        size_t(std::ranges::lower_bound(t, begin * (t.empty() ? 0 : t.back())) - t.begin());
    if (int64_t(t.size() - from) < least_points) break;
    const Growth found = fitted(std::span(t).subspan(from), std::span(y).subspan(from), begin);
    if (!best || 3 * found.misfit < best->misfit) best = found;
  }
  return best.value_or(Growth());
}

double tokens_until(const Growth& growth, double limit) {
  if (growth.law == GrowthLaw::bounded || growth.now >= limit) return 0;
  if (growth.law == GrowthLaw::linear) return (limit - growth.now) / growth.rate;
  return std::log(limit / growth.now) / growth.rate;
}

}  // namespace deltasane::probe
