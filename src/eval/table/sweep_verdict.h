// Which alphas can be used, by rules that only need the table. With p of the two-sided paired t-test over
// the benchmarks, and "significantly below" meaning a lower average and p below the level:
//
//   harmless   without a prefix not significantly below the baseline
//   collapsed  after the prefix an overflow, or less than a tenth of the own average without a prefix
//   safe       harmless, not collapsed, and after the prefix not significantly below the best harmless alpha
//   front      no other alpha has both averages, without the prefix and after it, at least as high and one of
//              them higher (Pareto)
//   choice     of those both safe and on the front, the one with the highest average after the prefix
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/table/sweep_table.h"

namespace deltasane::eval {

struct SweepVerdict {
  double level = 0.05;
  std::vector<double> harmless, collapsed, safe, front;  // alphas, in order
  std::optional<double> choice;
};

SweepVerdict judge(const SweepTable& table, double level = 0.05);

// The verdict in words, a sentence each.
std::vector<std::string> sentences(const SweepTable& table, const SweepVerdict& verdict);

// "3 to 5, 7": ranges are of neighbours among `all`.
std::string alphas_text(const std::vector<double>& some, const std::vector<double>& all);

}  // namespace deltasane::eval
