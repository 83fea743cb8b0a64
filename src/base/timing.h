// How long something takes: run it a few times, keep the median and the spread.
#pragma once

#include <functional>
#include <vector>

namespace deltasane {

struct Timing {
  double median = 0, low = 0, high = 0;  // seconds
  int repeats = 0;
};

// Runs `body` once unmeasured, then at least `least_repeats` times and at least `least_seconds`.
Timing time_repeated(const std::function<void()>& body, double least_seconds = 0.3,
                     int least_repeats = 5);

Timing timing_of(std::vector<double> seconds);  // at least one

// A median of several measurements, with the interval that holds the true one in 95 of 100 cases,
// whatever the distribution; of fewer than six the interval is all of them, and means less.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int count = 0;
};
MedianInterval median_interval(std::vector<double> values);  // at least one

// take(false) and take(true), of two kinds that are compared: `pairs` times, each first in turns.
template <class Take>
void in_pairs(int pairs, Take&& take) {
  for (int pair = 0; pair < pairs; ++pair) take(pair % 2 == 1), take(pair % 2 == 0);
}

double seconds_now();  // monotonic

}  // namespace deltasane
