#include "probe/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/error.h"
#include "kernel/sane/tau.h"
#include "probe/memory_shapes.h"

namespace deltasane::probe {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Heads that hold 99 % of the squares; the heads are in order of their norms.
int64_t fewest_heads(std::vector<double> squares) {
  std::ranges::sort(squares, std::greater<>());
  double all = 0, held = 0;
  for (const double s : squares) all += s;
  int64_t count = 0;
  for (const double s : squares) {
    if (held >= 0.99 * all) break;
    held += s, ++count;
  }
  return count;
}

// What follows from the heads as they are at the end. Shares above 10 and 100 are set before.
void conclude(Diagnosis& found) {
  std::vector<double> medians, healthy, squares;
  double all = 0, anomalous = 0;
  std::map<int64_t, double> of_stream;
  for (const HeadDiagnosis& head : found.heads) of_stream[head.stream] += head.norm * head.norm;
  for (HeadDiagnosis& head : found.heads) {
    const double square = head.norm * head.norm;
    head.share_of_squares = of_stream[head.stream] > 0 ? square / of_stream[head.stream] : 0;
    all += square;
    anomalous += head.anomalous() ? square : 0;
    squares.push_back(square);
    medians.push_back(head.median);
    if (!head.anomalous()) healthy.push_back(head.q9999);
    found.background.largest = std::max(found.background.largest, head.largest);
  }
  found.background.median = median_of(medians);
  found.background.anomalous_squares = all > 0 ? anomalous / all : 0;
  found.background.heads_with_99 = fewest_heads(squares);
  found.has_healthy = !healthy.empty();
  if (healthy.size() < found.heads.size() || !found.breaks.empty()) {
    const double kept = found.has_healthy ? median_of(healthy) : found.background.median;
    found.alpha = std::clamp(kernel::alpha_at_zero(kept), 1.0, 10.0);
    found.tau = kernel::tau_at_zero(found.alpha);
  }
  std::ranges::stable_sort(found.heads, [](const HeadDiagnosis& a, const HeadDiagnosis& b) {
    if (a.anomalous() != b.anomalous()) return a.anomalous();
    return a.norm > b.norm;
  });
}

struct History {
  std::vector<int64_t> positions;
  std::vector<double> norms, largest;
  size_t last = 0;  // row
};

std::optional<int64_t> hot_since(const History& history) {
  std::optional<int64_t> since;
  for (size_t i = history.positions.size(); i-- > 0 && history.largest[i] > hot_limit;)
    since = history.positions[i];
  return since;
}

std::vector<StreamBreak> breaks_in(const RecordTable& segments) {
  std::vector<StreamBreak> breaks;
  for (size_t i = 0; i < size_t(segments.rows); ++i)
    if (segments.integers("overflow")[i])
      breaks.push_back({segments.integers("stream")[i], segments.integers("position")[i],
                        segments.integers("overflow_layer")[i],
                        segments.integers("overflow_head")[i]});
  return breaks;
}

}  // namespace

Diagnosis diagnose(const RecordTable& segments, const RecordTable& heads) {
  const MemoryShapes shapes(segments);
  Diagnosis found;
  found.most_entries = shapes.most_entries();
  if (shapes.empty() && segments.rows > 0) {
    found.position = std::ranges::max(segments.integers("position"));
    found.records = int64_t(segments.rows) / segments.count_setting("streams");
    return found;
  }
  if (heads.rows == 0)
    fail(Fault::file, "records of ", heads.header.table,
         ": expected at least one segment, found none; let the stream run longer");
  const auto &streams = heads.integers("stream"), &positions = heads.integers("position");
  const auto &layers = heads.integers("layer"), &numbers = heads.integers("head");
  const auto &norms = heads.reals("norm"), &largest = heads.reals("largest");
  std::map<std::tuple<int64_t, int64_t, int64_t>, History> histories;
  for (size_t i = 0; i < size_t(heads.rows); ++i) {
    History& history = histories[{streams[i], layers[i], numbers[i]}];
    history.positions.push_back(positions[i]);
    history.norms.push_back(norms[i]);
    history.largest.push_back(largest[i]);
    history.last = i;
  }
  double entries = 0;
  for (const auto& [key, history] : histories)
    entries += double(shapes.entries(std::get<1>(key), std::get<2>(key)));
  for (const auto& [key, history] : histories) {
    HeadDiagnosis head;
    std::tie(head.stream, head.layer, head.head) = key;
    const size_t at = history.last;
    head.norm = norms[at], head.largest = largest[at];
    head.median = heads.reals("median")[at], head.q9999 = heads.reals("q9999")[at];
    head.growth = growth_of(history.positions, history.norms);
    head.hot_since = hot_since(history);
    found.records = std::max(found.records, int64_t(history.positions.size()));
    found.position = std::max(found.position, positions[at]);
    const auto own = double(shapes.entries(head.layer, head.head));
    found.background.above_10 += heads.reals("above_10")[at] * own / entries;
    found.background.above_100 += heads.reals("above_100")[at] * own / entries;
    found.heads.push_back(head);
  }
  found.breaks = breaks_in(segments);
  conclude(found);
  return found;
}

Diagnosis diagnose(const StateLayout& layout, int64_t position,
                   std::span<const HeadStatistics> statistics) {
  Diagnosis found;
  found.records = 1, found.position = position;
  found.most_entries = MemoryShapes(layout).most_entries();
  double entries = 0;
  for (const StateHead& head : layout.heads()) entries += double(head.floats());
  for (size_t i = 0; i < statistics.size(); ++i) {
    const HeadStatistics& s = statistics[i];
    HeadDiagnosis head;
    head.layer = layout.heads()[i].layer, head.head = layout.heads()[i].head;
    head.norm = s.norm, head.largest = s.largest, head.median = s.median, head.q9999 = s.q9999;
    const auto own = double(layout.heads()[i].floats());
    found.background.above_10 += s.above_10 * own / entries;
    found.background.above_100 += s.above_100 * own / entries;
    found.heads.push_back(head);
  }
  conclude(found);
  return found;
}

}  // namespace deltasane::probe
