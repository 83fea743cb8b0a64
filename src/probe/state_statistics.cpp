#include "probe/state_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace deltasane::probe {
namespace {

// Magnitudes as integers: in order, NaN above infinity, and compared without branches.
float magnitude_from(int32_t bits) {
  const float value = std::bit_cast<float>(bits);
  return std::isnan(value) ? std::numeric_limits<float>::infinity() : value;
}

// The largest float that is at most, or below, a limit: comparisons with it are exact.
int32_t at_most(double limit) {
  const auto near = float(limit);
  return std::bit_cast<int32_t>(double(near) > limit ? std::nextafter(near, 0.0f) : near);
}

int32_t below(double limit) {
  const auto near = float(limit);
  return std::bit_cast<int32_t>(double(near) >= limit ? std::nextafter(near, 0.0f) : near);
}

int64_t count_above(std::span<const int32_t> magnitudes, int32_t limit) {
  int32_t above = 0;
  for (const int32_t m : magnitudes) above += m > limit;
  return above;
}

}  // namespace

HeadStatistics statistics_of(std::span<const float> entries, double tau) {
  HeadStatistics found;
  if (entries.empty()) return found;
  std::vector<int32_t> magnitudes(entries.size());
  double squares[4] = {};  // side by side, so that the additions overlap
  int32_t largest = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    magnitudes[i] = std::bit_cast<int32_t>(entries[i]) & 0x7fffffff;
    largest = std::max(largest, magnitudes[i]);
    squares[i % 4] += double(entries[i]) * double(entries[i]);
  }
  found.largest = double(magnitude_from(largest));
  found.norm = std::sqrt((squares[0] + squares[1]) + (squares[2] + squares[3]));
  if (!std::isfinite(found.norm)) found.norm = std::numeric_limits<double>::infinity();

  const double share = 1.0 / double(entries.size());
  found.above_10 = double(count_above(magnitudes, at_most(10))) * share;
  found.above_100 = double(count_above(magnitudes, at_most(100))) * share;
  found.below_01 =
      double(int64_t(entries.size()) - count_above(magnitudes, below(0.1))) * share;
  if (tau > 0) {
    const int64_t beyond = count_above(magnitudes, at_most(tau * identity_limit));
    const int64_t held = count_above(magnitudes, below(tau * saturation_limit));
    found.near_identity = double(int64_t(entries.size()) - beyond) * share;
    found.transition = double(beyond - held) * share;
    found.saturated = double(held) * share;
  }

  // Each quantile is looked for in what lies above the one before.
  auto from = magnitudes.begin();
  const auto quantile = [&](double part) {
    const auto rank = int64_t(std::ceil(part * double(entries.size())));
    const auto at = magnitudes.begin() + std::max<int64_t>(rank, 1) - 1;
    std::nth_element(from, at, magnitudes.end());
    from = at;
    return double(magnitude_from(*at));
  };
  found.median = quantile(0.5);
  found.q99 = quantile(0.99);
  found.q9999 = quantile(0.9999);
  return found;
}

std::vector<HeadStatistics> statistics_of(const SequenceState& state, const TauRecord* taus,
                                          ThreadPool& threads) {
  const std::span<const StateHead> heads = state.layout().heads();
  std::vector<HeadStatistics> all(heads.size());
  const std::span<const float> numbers = state.fixed();
  threads.parallel(int64_t(all.size()), [&](int64_t i) {
    const StateHead& head = heads[size_t(i)];
    const double tau = taus ? double((*taus)[size_t(i)].last) : 0.0;
    all[size_t(i)] =
        statistics_of(numbers.subspan(size_t(head.offset), size_t(head.floats())), tau);
  });
  return all;
}

double whole_norm(std::span<const HeadStatistics> heads) {
  double squares = 0;
  for (const HeadStatistics& head : heads) squares += head.norm * head.norm;
  return std::sqrt(squares);
}

}  // namespace deltasane::probe
