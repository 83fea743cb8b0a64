#include "train/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "model/random_rwkv7.h"
#include "train/processor_time.h"
#include "train/training_fixture.h"

namespace deltasane::train {
namespace {

// The numbers 1 to n, in a mixed order.
std::vector<double> numbers_to(int n) {
  std::vector<double> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 1.0);
  std::rotate(all.begin(), all.begin() + n / 3, all.end());
  return all;
}

// Binomial tables: of n coins, fewer than `low` fall on one side in at most 2.5 %.
TEST(MedianInterval, LeavesOutWhatIsUnlikely) {
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

TEST(RecurrenceTime, IsAPartOfAStep) {
  ThreadPool threads(2);
  const Rwkv7Shape shape = test::small_heads_shape(true);
  const Parameters model(RandomRwkv7(shape, 11), SaneSettings{1.0, 16});
  const Batch batch = test::random_batch(shape, 2, 48);
  std::vector<float> gradient(model.all().size());
  Rwkv7Training training(model.layout(), model.sane(), 2, 48, Activations::keep);
  EXPECT_EQ(training.recurrence_seconds(), 0);
  for (int turn = 0; turn < 2; ++turn) {  // each call counts anew
    const double began = processor_seconds_now();
    training.gradient(model.all(), batch, {batch.weight_total(), 0}, gradient, {threads});
    EXPECT_GT(training.recurrence_seconds(), 0);
    EXPECT_LT(training.recurrence_seconds(), processor_seconds_now() - began);
  }
}

}  // namespace
}  // namespace deltasane::train
