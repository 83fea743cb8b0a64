// The operator's benchmark cases: operations, bytes and time of each.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/timing.h"
#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel {

// Operations per head and token, in squares of the head size N.
inline constexpr double forward_flops = 9;    // S a: 2, S diag(w) + (S a) b' + v k': 5, S r: 2
inline constexpr double backward_flops = 19;  // dr dv dk db dsa da dw and dy r': 2 each, dS: 3
// The same of the other rules, in products of key and value channels.
inline constexpr double gated_forward_flops = 7;    // S diag(w): 1, S k, S r, u k': 2 each
inline constexpr double gated_backward_flops = 17;  // dr dk(2) dv du dw and dy r', du k': 2; dS: 1

struct DeltaRuleMeasurement {
  std::string pass;  // forward, backward, step
  bool sane;
  int64_t batch, time, heads, channels;
  double bytes, flops;  // the least the maths needs: inputs read once, outputs written once
  Timing timing;
  // On a CPU: the median share of the multiply-add limit measured just before and just after each
  // repeat; and how many repeats were left out because that limit was far below its best.
  double share_of_limit = 0;
  int left_out = 0;
  // With SANE: the time it adds, relative to the same without it just before.
  std::optional<MedianInterval> sane_cost = {};
  int64_t values = 0;  // value channels of a head; 0: as many as `channels`

  double tokens() const { return double(batch * time); }
};

// That of alpha 3 at the start of training. States of the benchmarks are small relative to it,
// which takes the shortest approximations of SANE; a smaller tau takes longer ones.
inline constexpr double usual_tau = 3.08;

// Forward, backward and step of the generalized rule at the usual shapes, without and with SANE.
// The two of a pair alternate, with the multiply-add limit between them, so that a change of the
// machine's speed affects both.
std::vector<DeltaRuleMeasurement> bench_delta_rule(const Cpu& cpu, double tau);

}  // namespace deltasane::kernel
