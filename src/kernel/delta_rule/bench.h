// The operator's benchmark cases: what each must compute and move, and how long it took.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/timing.h"
#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel {

struct DeltaRuleMeasurement {
  std::string pass;  // forward, backward, step
  bool sane;
  int64_t batch, time, heads, channels;
  double bytes, flops;  // the least the maths needs: inputs read once, outputs written once
  Timing timing;

  double tokens() const { return double(batch * time); }
};

// Forward, backward and step of rwkv7 at the shapes everyone compares, without and with SANE. The
// two of a pair are measured in turns, so that a change of the machine's pace meets both.
std::vector<DeltaRuleMeasurement> bench_delta_rule(const Cpu& cpu);

}  // namespace deltasane::kernel
