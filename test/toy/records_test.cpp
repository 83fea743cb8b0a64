// Statistics and diagnoses of heads whose shapes differ, with numbers that are known.
#include <gtest/gtest.h>

#include <cmath>

#include "probe/diagnosis.h"
#include "probe/memory_shapes.h"
#include "probe/state_grid.h"
#include "support/errors.h"
#include "toy/fixture.h"

namespace deltasane::toy {
namespace {

using probe::MemoryShapes;

// Head h has h + 1 everywhere but in its last entry, which is 100 (h + 1); other parts have 1e6.
struct ToyStatistics : testing::Test {
  OpenToy toy;
  SequenceState state = toy.model->fresh_state();
  ThreadPool threads{2};

  ToyStatistics() {
    std::ranges::fill(state.mutable_fixed(), 1e6f);
    state.mutable_cache(0).assign(10, 1e6f);
    for (const StatePart& part : state.layout().parts()) {
      if (part.kind != StateKind::memory) continue;
      const std::span<float> entries = state.mutable_of(part);
      const size_t size = entries.size() / size_t(part.shape[0]);
      for (size_t i = 0; i < entries.size(); ++i) {
        entries[i] = float(1 + first_ + int64_t(i / size));
        if (i % size == size - 1) entries[i] *= -100;
      }
      first_ += part.shape[0];
    }
  }

 private:
  int64_t first_ = 0;
};

TEST_F(ToyStatistics, AreThoseOfEachHeadsOwnEntries) {
  const std::vector<probe::HeadStatistics> found = probe::statistics_of(state, nullptr, threads);
  const double sizes[] = {24, 24, 15, 15, 15, 14};
  ASSERT_EQ(found.size(), 6u);
  double squares = 0;
  for (size_t h = 0; h < 6; ++h) {
    const double n = double(h + 1);
    EXPECT_EQ(found[h].largest, 100 * n);
    EXPECT_EQ(found[h].median, n);
    EXPECT_EQ(found[h].q9999, 100 * n);
    EXPECT_EQ(found[h].norm, std::sqrt(n * n * (sizes[h] - 1 + 10000)));
    EXPECT_EQ(found[h].above_10, 1 / sizes[h]);
    EXPECT_EQ(found[h].above_100, h ? 1 / sizes[h] : 0);
    squares += n * n * (sizes[h] - 1 + 10000);
  }
  EXPECT_DOUBLE_EQ(probe::whole_norm(found), std::sqrt(squares));
}

TEST_F(ToyStatistics, UseTheTauOfTheirOwnHead) {
  TauRecord taus(state.layout());
  taus.add(0, std::vector<float>{1, 1, 10, 4});  // two chunks of two heads
  taus.add(2, std::vector<float>{30, 5, 5, 6});
  EXPECT_EQ(taus[0].count, 2);
  EXPECT_EQ(taus[0].high, 10);
  EXPECT_EQ(taus[5].last, 6);
  const auto found = probe::statistics_of(state, &taus, threads);
  const double sizes[] = {24, 24, 15, 15, 15, 14};
  const double small[] = {1, 0, 1, 0, 0, 0};  // |S| / tau: 1/10, 2/4, 3/30, 4/5, 5/5, 6/6
  const double large[] = {0, 0, 0, 0, 1, 1};
  for (size_t h = 0; h < 6; ++h) {
    EXPECT_DOUBLE_EQ(found[h].near_identity, small[h] * (sizes[h] - 1) / sizes[h]) << h;
    EXPECT_DOUBLE_EQ(found[h].saturated, (large[h] * (sizes[h] - 1) + 1) / sizes[h]) << h;
    EXPECT_DOUBLE_EQ(found[h].near_identity + found[h].transition + found[h].saturated, 1) << h;
  }
}

TEST_F(ToyStatistics, MakeADiagnosisThatWeighsHeadsByTheirEntries) {
  const probe::Diagnosis found = probe::diagnose(
      state.layout(), 77, probe::statistics_of(state, nullptr, threads));
  EXPECT_DOUBLE_EQ(found.background.above_10, 6.0 / 107);
  EXPECT_DOUBLE_EQ(found.background.above_100, 5.0 / 107);
  EXPECT_EQ(found.background.largest, 600);
  EXPECT_EQ(found.most_entries, 24);
  ASSERT_EQ(found.heads.size(), 6u);  // the largest norm first
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(found.heads[i].median, double(6 - i));
  EXPECT_EQ(found.heads[0].layer, 2);
  EXPECT_EQ(found.heads[0].head, 3);
  EXPECT_EQ(found.heads[5].layer, 0);
  EXPECT_EQ(found.heads[5].head, 0);
}

// A band for each layer with a memory, heads side by side at its top, and nothing elsewhere.
TEST_F(ToyStatistics, AreDrawnFromAGridWithBlankPlaces) {
  const probe::StateGrid grid = probe::grid_of(state);
  EXPECT_EQ(grid.rows, 6 + 5);
  EXPECT_EQ(grid.columns, 3 * 3 + 7);
  EXPECT_FALSE(grid.is_regular);
  ASSERT_EQ(grid.bands.size(), 2u);
  EXPECT_EQ(grid.bands[0].layer, 0);
  EXPECT_EQ(grid.bands[1].layer, 2);
  EXPECT_EQ(grid.bands[1].row, 6);
  EXPECT_EQ(grid.bands[1].rows, 5);
  const std::string_view heads =  // which head a place shows; * its last entry
      "00001111........"
      "00001111........"
      "00001111........"
      "00001111........"
      "00001111........"
      "000*111*........"
      "2223334445555555"
      "222333444555555*"
      "222333444......."
      "222333444......."
      "22*33*44*.......";
  ASSERT_EQ(grid.values.size(), heads.size());
  char last = '0';
  for (size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] != '.' && heads[i] != '*') last = heads[i];
    const float value = float(last - '0' + 1);
    if (heads[i] == '.')
      EXPECT_TRUE(std::isnan(grid.values[i])) << i;
    else
      EXPECT_EQ(grid.values[i], heads[i] == '*' ? 100 * value : value) << i;
  }
  const auto regular = std::make_shared<StateLayout>(shifts_and_square_heads(3, 8, 2, 4));
  const probe::StateGrid even = probe::grid_of(SequenceState(regular));
  EXPECT_TRUE(even.is_regular);
  EXPECT_EQ(even.rows, 12);
  EXPECT_EQ(even.columns, 8);
  EXPECT_EQ(even.values, std::vector<float>(96));
}

probe::RecordTable table_with(const probe::Settings& settings) {
  probe::RecordTable table;
  table.header = {"heads", {}, settings};
  return table;
}

TEST(ToyMemoryShapes, TravelAsSettings) {
  const OpenToy toy;
  const MemoryShapes shapes(*toy.model->state_layout());
  EXPECT_EQ(shapes.settings(),
            (probe::Settings{{"layers", "3"}, {"memories", "0:2x6x4,2:3x5x3,2:1x2x7"}}));
  const MemoryShapes read(table_with(shapes.settings()));
  EXPECT_EQ(read.settings(), shapes.settings());
  for (const StateHead& head : toy.model->state_layout()->heads())
    EXPECT_EQ(read.entries(head.layer, head.head), head.floats());
  EXPECT_EQ(read.most_entries(), 24);
  EXPECT_FAULT(read.entries(2, 4), Fault::file, "found head 4 of layer 2");
  EXPECT_FAULT(read.entries(1, 0), Fault::file, "found head 0 of layer 1");
  EXPECT_FAULT(read.entries(0, -1), Fault::file, "found head -1 of layer 0");
}

TEST(ToyMemoryShapes, OfEqualSquareHeadsAreWhatTheyAlwaysWere) {
  const MemoryShapes shapes(shifts_and_square_heads(4, 32, 2, 16));
  EXPECT_EQ(shapes.settings(),
            (probe::Settings{{"layers", "4"}, {"heads", "2"}, {"head_size", "16"}}));
  EXPECT_EQ(MemoryShapes(table_with(shapes.settings())).entries(3, 1), 256);
}

TEST(ToyMemoryShapes, OfAModelWithoutMemoryAreEmpty) {
  StateLayout layout;
  layout.add("keys", StateKind::cache, 1, {4});
  const MemoryShapes shapes(layout);
  EXPECT_TRUE(shapes.empty());
  EXPECT_EQ(shapes.settings(), (probe::Settings{{"layers", "2"}, {"memories", ""}}));
  EXPECT_TRUE(MemoryShapes(table_with(shapes.settings())).empty());
}

TEST(ToyMemoryShapes, AreRefusedWhereTheyAreOdd) {
  for (const char* odd : {"x", "0", "0:2", "0:2x6", "0:2x6x4x3", "0:2x6x4;1:1x1x1", "-1:2x6x4",
                          "0:0x6x4", "0:2x6x1048577", "0:2x6x99999999999999999999", ",", "0:2x6x4,,"})
    EXPECT_FAULT(MemoryShapes(table_with({{"layers", "3"}, {"memories", odd}})), Fault::file,
                 "memories: expected LAYER:HEADSxROWSxCOLUMNS");
}

}  // namespace
}  // namespace deltasane::toy
