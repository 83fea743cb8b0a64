#include "base/timing.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace deltasane {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return {seconds[seconds.size() / 2], seconds.front(), seconds.back(), int(seconds.size())};
}

Timing time_repeated(const std::function<void()>& body, double least_seconds, int least_repeats) {
  body();
  std::vector<double> seconds;
  const double begin = seconds_now();
  while (int(seconds.size()) < least_repeats || seconds_now() - begin < least_seconds) {
    const double start = seconds_now();
    body();
    seconds.push_back(seconds_now() - start);
  }
  return timing_of(std::move(seconds));
}

}  // namespace deltasane
