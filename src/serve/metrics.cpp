#include "serve/metrics.h"

#include "base/cat.h"

namespace deltasane::serve {
namespace {

constexpr double bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                             0.25,   0.5,   1,      2.5,   5,    10,    30,   60};

// Most names are there already, and looking for them takes no memory.
template <class Value>
Value& entry_of(std::map<std::string, Value, std::less<>>& all, std::string_view name) {
  const auto found = all.find(name);
  return found != all.end() ? found->second : all[std::string(name)];
}

}  // namespace

void Metrics::add(std::string_view name, double amount, std::string_view label) {
  const std::lock_guard lock(mutex_);
  entry_of(entry_of(counters_, name), label) += amount;
}

void Metrics::set(std::string_view name, double value, std::string_view label) {
  const std::lock_guard lock(mutex_);
  entry_of(entry_of(gauges_, name), label) = value;
}

void Metrics::observe(std::string_view name, double seconds) {
  const std::lock_guard lock(mutex_);
  Histogram& histogram = entry_of(histograms_, name);
  histogram.counts.resize(std::size(bounds));
  for (size_t i = 0; i < std::size(bounds); ++i) histogram.counts[i] += seconds <= bounds[i];
  ++histogram.count;
  histogram.sum += seconds;
}

double Metrics::value(std::string_view name, std::string_view label) const {
  const std::lock_guard lock(mutex_);
  for (const auto* const all : {&counters_, &gauges_})
    if (const auto found = all->find(name); found != all->end())
      if (const auto one = found->second.find(label); one != found->second.end()) return one->second;
  return 0;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto print = [&](const auto& all, std::string_view kind) {
    for (const auto& [name, values] : all) {
      text += cat("# TYPE deltasane_", name, " ", kind, "\n");
      for (const auto& [label, value] : values)
        text += cat("deltasane_", name, label.empty() ? "" : cat("{", label, "}"), " ", value, "\n");
    }
  };
  print(counters_, "counter");
  print(gauges_, "gauge");
  for (const auto& [name, histogram] : histograms_) {
    text += cat("# TYPE deltasane_", name, " histogram\n");
    for (size_t i = 0; i < std::size(bounds); ++i)
      text += cat("deltasane_", name, "_bucket{le=\"", bounds[i], "\"} ", histogram.counts[i], "\n");
    text += cat("deltasane_", name, "_bucket{le=\"+Inf\"} ", histogram.count, "\ndeltasane_", name,
                "_sum ", histogram.sum, "\ndeltasane_", name, "_count ", histogram.count, "\n");
  }
  return text;
}

}  // namespace deltasane::serve
