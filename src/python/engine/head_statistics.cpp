#include "python/engine/head_statistics.h"

#include "probe/state_statistics.h"

namespace deltasane::python {

std::vector<std::pair<std::string, double>> head_statistics(std::span<const float> entries,
                                                            double tau) {
  const probe::HeadStatistics found = probe::statistics_of(entries, tau);
  return {{"norm", found.norm},
          {"largest", found.largest},
          {"median", found.median},
          {"q99", found.q99},
          {"q9999", found.q9999},
          {"above_10", found.above_10},
          {"above_100", found.above_100},
          {"below_01", found.below_01},
          {"near_identity", found.near_identity},
          {"transition", found.transition},
          {"saturated", found.saturated}};
}

}  // namespace deltasane::python
