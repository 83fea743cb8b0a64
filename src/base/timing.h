// How long something takes: run it a few times, keep the median and the spread.
#pragma once

#include <functional>
#include <vector>

namespace deltasane {

struct Timing {
  double median = 0, low = 0, high = 0;  // seconds
  int repeats = 0;
};

// Runs `body` once unmeasured, then at least `min_repeats` times and at least `min_seconds`.
Timing time_repeated(const std::function<void()>& body, double min_seconds = 0.3,
                     int min_repeats = 5);

Timing timing_of(std::vector<double> seconds);  // at least one

// A median of several measurements, with its 95 % confidence interval (from order statistics, so
// for any distribution). With fewer than six values it is their whole range, at a lower confidence.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int count = 0;
};
MedianInterval median_interval(std::vector<double> values);  // at least one

// Paired measurement of two variants: take(false) and take(true), `pairs` times, in alternating
// order.
template <class Take>
void in_pairs(int pairs, Take&& take) {
  for (int pair = 0; pair < pairs; ++pair) take(pair % 2 == 1), take(pair % 2 == 0);
}

double seconds_now();  // monotonic

}  // namespace deltasane
