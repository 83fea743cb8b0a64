// Which heads of a model are anomalous, since when and how they grow; from records or one state.
//
// A head is anomalous when its norm grows (growth.h) or max |S| is above hot_limit. It has been
// hot since the first record from which on max |S| stayed above hot_limit.
//
// The alpha that would cap them, where there are any: the smallest with which a healthy head keeps
// its entries. SANE holds |S| <= tau, tau = alpha ln 2 + 1 before training; so tau is asked to be at
// least the 99.99 % quantile of |S| in the median healthy head, and alpha is kept in the range that
// was studied, 1 to 10. Where no head is healthy, tau is the median |S| of the median head.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "probe/growth.h"
#include "probe/record_file.h"
#include "probe/state_statistics.h"

namespace deltasane::probe {

inline constexpr double hot_limit = 20;  // inside the training length a few entries reach 10 to 20

struct HeadDiagnosis {
  int64_t stream = 0, layer = 0, head = 0;
  double norm = 0, largest = 0, median = 0, q9999 = 0;  // at the last record
  double share_of_squares = 0;                          // of the stream's whole state
  Growth growth;                                        // of the norm
  std::optional<int64_t> hot_since;
  bool anomalous() const { return growth.law != GrowthLaw::bounded || largest > hot_limit; }
};

// The "relative sparsity" of the last state: a quiet background under a few hot spots.
struct Background {
  double median = 0;                   // of |S|, in the median head
  double largest = 0;                  // of all
  double above_10 = 0, above_100 = 0;  // shares of all entries
  double anomalous_squares = 0;        // share of the sum of squares in anomalous heads
  int64_t heads_with_99 = 0;           // fewest heads that hold 99 % of the sum of squares
};

struct StreamBreak {
  int64_t stream = 0, position = 0, layer = 0, head = 0;
};

struct Diagnosis {
  int64_t records = 0, position = 0;  // how many per head, and the last position
  std::vector<HeadDiagnosis> heads;   // anomalous ones first, the largest norm first
  Background background;
  std::vector<StreamBreak> breaks;
  double alpha = 0, tau = 0;  // 0: all heads are healthy
  bool has_healthy = false;   // heads to go by
  int64_t most_entries = 0;   // of one head: SANE holds its norm to tau times their root
};

Diagnosis diagnose(const RecordTable& segments, const RecordTable& heads);

// From one state: no growth, nothing about the past.
Diagnosis diagnose(const StateLayout& layout, int64_t position,
                   std::span<const HeadStatistics> statistics);

}  // namespace deltasane::probe
