// What a state looks like, head by head: sizes of its entries, and how SANE sees them.
//
//     norm            Frobenius: the root of the sum of squares, in double
//     largest         max |S|
//     median, q99, q9999   quantiles of |S| by nearest rank: the smallest value that at least this
//                     share of the entries does not exceed; an entry of S, never an average
//     above_10, above_100  shares of entries with |S| > 10 and > 100
//     below_01        share of entries with |S| < 0.1
//
// With SANE, by |S| / tau with the tau used last:
//     near_identity   at most 0.1: neutralization changes the entry by less than 0.4 %
//     saturated       at least 0.9: before it, the entry was at least 1.47 tau
//     transition      the rest
//
// An entry that is not finite makes norm and largest infinite, and counts as the largest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/threads.h"
#include "model/state/sequence_state.h"
#include "model/tau_record.h"

namespace deltasane::probe {

inline constexpr double identity_limit = 0.1, saturation_limit = 0.9;

struct HeadStatistics {
  double norm = 0, largest = 0, median = 0, q99 = 0, q9999 = 0;
  double above_10 = 0, above_100 = 0, below_01 = 0;
  double near_identity = 0, transition = 0, saturated = 0;  // 0 without SANE
  friend bool operator==(const HeadStatistics&, const HeadStatistics&) = default;
};

// tau 0: no SANE.
HeadStatistics statistics_of(std::span<const float> entries, double tau);

// By head of the state's layout. `taus`: absent without SANE.
std::vector<HeadStatistics> statistics_of(const SequenceState& state, const TauRecord* taus,
                                          ThreadPool& threads);

// The root of the sum of squares of the heads' norms.
double whole_norm(std::span<const HeadStatistics> heads);

}  // namespace deltasane::probe
