#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "probe/loss_codes.h"
#include "probe/loss_curve.h"

namespace deltasane::probe {
namespace {

// Most tokens are easy, some are not, one in a hundred is a spike.
std::vector<double> some_losses(size_t count) {
  Random random(4);
  std::vector<double> losses(count);
  for (double& loss : losses)
    loss = random.below(100) == 0 ? random.uniform(6, 11) : std::pow(random.uniform(0, 1.4), 4);
  return losses;
}

TEST(LossCodes, GrowWithTheLoss) {
  EXPECT_EQ(loss_of_code(0), 0);
  EXPECT_EQ(loss_of_code(17), 17.0 / 16);
  EXPECT_EQ(loss_of_code(192), 12);
  EXPECT_EQ(loss_of_code(208), 24);
  for (int code = 1; code < 256; ++code)
    EXPECT_GT(loss_of_code(uint8_t(code)), loss_of_code(uint8_t(code - 1)));
}

TEST(LossCodes, TheirSumsAreOffByAStepAtMost) {
  const std::vector<double> losses = some_losses(20000);
  const std::string codes = loss_codes(losses);
  ASSERT_EQ(codes.size(), losses.size());
  std::vector<double> off{0};  // of the sums from the beginning
  for (size_t i = 0; i < losses.size(); ++i)
    off.push_back(off.back() + loss_of_code(uint8_t(codes[i])) - losses[i]);
  const double rounding = 20000 * 0x1p-40;
  for (size_t i = 0; i < off.size(); ++i) ASSERT_LE(std::abs(off[i]), loss_step / 2 + rounding);
  double most = 0;
  for (size_t i = 50; i < off.size(); ++i) most = std::max(most, std::abs(off[i] - off[i - 50]));
  EXPECT_LE(most, loss_step + rounding);
  EXPECT_GT(most, loss_step / 4);  // the bound is not far from what happens
}

TEST(LossCodes, TakeAnyLoss) {
  const std::string codes = loss_codes(std::vector<double>{1e30, 0, 100, 0});
  EXPECT_EQ(uint8_t(codes[0]), 255);
  EXPECT_EQ(codes[1], 0);  // what is beyond the largest code is not handed on
  EXPECT_NEAR(loss_of_code(uint8_t(codes[2])), 100, 5);
  EXPECT_TRUE(loss_codes({}).empty());
}

RecordTable table_of(const std::vector<std::vector<double>>& rows, int64_t stream) {
  RecordTable table;
  table.header = {"losses",
                  {{"stream", ColumnType::integer},
                   {"position", ColumnType::integer},
                   {"losses", ColumnType::bytes}},
                  {}};
  table.values.resize(3);
  int64_t position = 0;
  for (const std::vector<double>& row : rows) {
    position += int64_t(row.size());
    for (const int64_t one : {stream, stream + 1}) {  // another stream beside it
      table.values[0].integers.push_back(one);
      table.values[1].integers.push_back(position);
      table.values[2].bytes.push_back(one == stream ? loss_codes(row) : std::string(row.size(), 9));
    }
  }
  table.rows = int64_t(rows.size()) * 2;
  return table;
}

// Against the definition, with the losses before they were rounded.
TEST(LossCurve, HasRangesLocalMeansAndTheCumulativeMean) {
  const std::vector<double> losses = some_losses(1000);
  const std::vector<std::vector<double>> rows{{losses.begin(), losses.begin() + 700},
                                              {losses.begin() + 700, losses.end()}};
  const LossCurve curve = loss_curve(table_of(rows, 3), 3, 30);
  EXPECT_EQ(curve.tokens, 1000);
  ASSERT_EQ(curve.ranges.size(), 30u);  // 34 tokens each
  double sum = 0;
  for (size_t i = 0; i < curve.ranges.size(); ++i) {
    const LossRange& range = curve.ranges[i];
    const size_t from = i * 34, to = std::min<size_t>(from + 34, 1000);
    EXPECT_EQ(range.position, int64_t(to));
    double low = 1e9, high = 0, local_low = 1e9, local_high = 0;
    for (size_t t = from; t < to; ++t) {
      sum += losses[t];
      low = std::min(low, losses[t]), high = std::max(high, losses[t]);
      if (t + 1 < 50) continue;
      double local = 0;
      for (size_t j = t + 1 - 50; j <= t; ++j) local += losses[j] / 50;
      local_low = std::min(local_low, local), local_high = std::max(local_high, local);
    }
    EXPECT_NEAR(range.token_low, low, loss_step);
    EXPECT_NEAR(range.token_high, high, loss_step);
    EXPECT_NEAR(range.cumulative, sum / double(to), loss_step / double(to));
    if (to < 50) {
      EXPECT_TRUE(std::isnan(range.local_low) && std::isnan(range.local_high));
      continue;
    }
    const double allowed = 1.5 * loss_step / 50;  // two rows may meet in a window
    EXPECT_NEAR(range.local_low, local_low, allowed);
    EXPECT_NEAR(range.local_high, local_high, allowed);
  }
  EXPECT_GT(curve.local_deviation, 0);
  EXPECT_EQ(loss_curve(table_of(rows, 3), 9, 30).tokens, 0);
}

TEST(LossCurve, ShowsSingleTokensWhereThereIsRoom) {
  const LossCurve curve = loss_curve(table_of({{1, 2, 3}}, 0), 0, 100);
  ASSERT_EQ(curve.ranges.size(), 3u);
  EXPECT_EQ(curve.ranges[1].token_low, 2);
  EXPECT_EQ(curve.ranges[1].token_high, 2);
  EXPECT_EQ(curve.ranges[2].cumulative, 2);
}

}  // namespace
}  // namespace deltasane::probe
