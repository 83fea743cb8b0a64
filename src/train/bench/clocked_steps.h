// Steps on a GPU whose clock moves, as if it had stood still.
//
// Heat and power move it by several percent within seconds, and two kinds of steps differ in
// seconds for that alone. A step waits M seconds for memory, which has a clock of its own, and
// works K cycles, so that it takes K + M f cycles at a clock of f. Kinds may differ in K; M, the
// slope, is nearly the same for all, and is found from how cycles follow the clock in each kind.
#pragma once

#include <vector>

namespace deltasane::train {

struct ClockedStep {
  double seconds, cycles;
  double clock() const { return cycles / seconds; }
};
using ClockedSteps = std::vector<ClockedStep>;

// All steps at the mean clock of all. kinds: at least one step in each.
std::vector<ClockedSteps> at_one_clock(std::vector<ClockedSteps> kinds);

}  // namespace deltasane::train
