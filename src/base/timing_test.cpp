#include "base/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace deltasane {
namespace {

// The numbers 1 to n, in a mixed order.
std::vector<double> numbers_to(int n) {
  std::vector<double> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 1.0);
  std::rotate(all.begin(), all.begin() + n / 3, all.end());
  return all;
}

// Binomial tables: the tail below `low` has a probability of at most 2.5 %.
TEST(MedianInterval, HasBinomialTailsOf2Point5Percent) {
  struct Row {
    int n;
    double median, low, high;
  };
  for (const Row& row : {Row{1, 1, 1, 1},
                         {5, 3, 1, 5},
                         {6, 3.5, 1, 6},
                         {9, 5, 2, 8},
                         {15, 8, 4, 12},
                         {40, 20.5, 14, 27}}) {
    const MedianInterval found = median_interval(numbers_to(row.n));
    EXPECT_EQ(found.median, row.median) << row.n;
    EXPECT_EQ(found.low, row.low) << row.n;
    EXPECT_EQ(found.high, row.high) << row.n;
    EXPECT_EQ(found.count, row.n);
  }
}

TEST(InPairs, AlternatesTheOrder) {
  std::vector<bool> taken;
  in_pairs(3, [&](bool second) { taken.push_back(second); });
  EXPECT_EQ(taken, (std::vector<bool>{false, true, true, false, false, true}));
}

}  // namespace
}  // namespace deltasane
