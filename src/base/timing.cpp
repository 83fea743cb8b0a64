#include "base/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace deltasane {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(), int(seconds.size())};
}

MedianInterval median_interval(std::vector<double> values) {
  std::ranges::sort(values);
  const auto n = int(values.size());
  // The number of values below the true median is binomial (n, 1/2). The interval drops as many
  // values at each end as have a tail probability of at most 2.5 %.
  double exactly = std::pow(0.5, n), at_most = 0;
  int left_out = 0;
  while (at_most + exactly <= 0.025) {
    at_most += exactly;
    exactly *= double(n - left_out) / double(left_out + 1);
    ++left_out;
  }
  const size_t first = left_out > 0 ? size_t(left_out - 1) : 0;
  const double median = (values[size_t(n / 2)] + values[size_t((n - 1) / 2)]) / 2;
  return {median, values[first], values[size_t(n) - 1 - first], n};
}

Timing time_repeated(const std::function<void()>& body, double min_seconds, int min_repeats) {
  body();
  std::vector<double> seconds;
  const double begin = seconds_now();
  while (int(seconds.size()) < min_repeats || seconds_now() - begin < min_seconds) {
    const double start = seconds_now();
    body();
    seconds.push_back(seconds_now() - start);
  }
  return timing_of(std::move(seconds));
}

}  // namespace deltasane
