// Counters, gauges and histograms, as Prometheus reads them. Names are those of vLLM where it has
// the same thing; no label holds a user's text.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::serve {

class Metrics {
 public:
  // `name` is without the prefix "deltasane_"; `label`: empty, or as it is printed: reason="stop".
  void add(std::string_view name, double amount, std::string_view label = {});
  void set(std::string_view name, double value, std::string_view label = {});
  void observe(std::string_view name, double seconds);  // a histogram

  double value(std::string_view name, std::string_view label = {}) const;
  std::string text() const;

 private:
  struct Histogram {
    std::vector<uint64_t> counts;
    uint64_t count = 0;
    double sum = 0;
  };
  using Labelled = std::map<std::string, double, std::less<>>;

  mutable std::mutex mutex_;
  std::map<std::string, Labelled, std::less<>> counters_, gauges_;
  std::map<std::string, Histogram, std::less<>> histograms_;
};

}  // namespace deltasane::serve
