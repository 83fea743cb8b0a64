#include "train/bench/clocked_steps.h"

#include "base/error.h"

namespace deltasane::train {
namespace {

// A step with the mean clock and the mean cycles.
ClockedStep mean_of(const ClockedSteps& steps) {
  require(!steps.empty(), "there are steps of each kind");
  double clocks = 0, cycles = 0;
  for (const ClockedStep& step : steps) clocks += step.clock(), cycles += step.cycles;
  return {cycles / clocks, cycles / double(steps.size())};
}

}  // namespace

std::vector<ClockedSteps> at_one_clock(std::vector<ClockedSteps> kinds) {
  double together = 0, alone = 0;
  ClockedSteps all;
  for (const ClockedSteps& steps : kinds) {
    const ClockedStep mean = mean_of(steps);
    for (const ClockedStep& step : steps) {
      const double off = step.clock() - mean.clock();
      together += off * (step.cycles - mean.cycles), alone += off * off;
      all.push_back(step);
    }
  }
  const double clock = mean_of(all).clock(), slope = alone > 0 ? together / alone : 0;
  for (ClockedSteps& steps : kinds)
    for (ClockedStep& step : steps) {
      step.cycles -= slope * (step.clock() - clock);
      step.seconds = step.cycles / clock;
    }
  return kinds;
}

}  // namespace deltasane::train
