#include "model/state/state_layout.h"

#include <gtest/gtest.h>

namespace deltasane {
namespace {

// Layers of three kinds: attention, a recurrence with a convolution before it, one with shifts.
StateLayout hybrid() {
  StateLayout layout;
  layout.add("keys", StateKind::cache, 0, {2, 4});
  layout.add("values", StateKind::cache, 0, {2, 6});
  layout.add("conv", StateKind::convolution, 1, {3, 10});
  layout.add("shift", StateKind::shift, 3, {7});
  layout.add("memory", StateKind::memory, 1, {2, 5, 3});
  layout.add("memory", StateKind::memory, 3, {3, 2, 2});
  return layout;
}

TEST(StateLayout, FixedPartsLieWithoutGapsAndCachesAreNumbered) {
  const StateLayout layout = hybrid();
  const int64_t offsets[] = {0, 1, 0, 30, 37, 67}, floats[] = {8, 12, 30, 7, 30, 12};
  ASSERT_EQ(layout.parts().size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(layout.parts()[i].offset, offsets[i]) << i;
    EXPECT_EQ(layout.parts()[i].floats(), floats[i]) << i;
    EXPECT_EQ(layout.parts()[i].grows(), i < 2) << i;
  }
  EXPECT_EQ(layout.floats(), 79);
  EXPECT_EQ(layout.layers(), 4);
  EXPECT_EQ(layout.caches(), 2);
  EXPECT_EQ(layout.cache(0).name, "keys");
  EXPECT_EQ(layout.cache(1).name, "values");
  EXPECT_DEATH(layout.cache(2), "a state has this cache");
}

TEST(StateLayout, HeadsAreNumberedOverAllLayers) {
  const StateLayout layout = hybrid();
  const auto heads = layout.heads();
  ASSERT_EQ(heads.size(), 5u);
  const int64_t layers[] = {1, 1, 3, 3, 3}, numbers[] = {0, 1, 0, 1, 2},
                offsets[] = {37, 52, 67, 71, 75};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(heads[i].layer, layers[i]) << i;
    EXPECT_EQ(heads[i].head, numbers[i]) << i;
    EXPECT_EQ(heads[i].offset, offsets[i]) << i;
    EXPECT_EQ(heads[i].rows, i < 2 ? 5 : 2) << i;
    EXPECT_EQ(heads[i].columns, i < 2 ? 3 : 2) << i;
    EXPECT_EQ(heads[i].floats(), i < 2 ? 15 : 4) << i;
  }
  const int64_t first[] = {0, 0, 0, 2, 0}, count[] = {0, 2, 0, 3, 0};
  for (int64_t layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(layout.heads_of(layer).count, count[layer]) << layer;
    EXPECT_EQ(layout.heads_of(layer).first, first[layer]) << layer;
  }
  EXPECT_EQ(layout.most_heads(), 3);
  EXPECT_EQ(StateLayout().most_heads(), 0);
}

TEST(StateLayout, TellsWhatItDiffersIn) {
  const StateLayout one = hybrid();
  EXPECT_EQ(one, hybrid());
  EXPECT_EQ(one.difference(hybrid()), "");
  StateLayout more = hybrid();
  more.add("memory", StateKind::memory, 5, {1, 2, 2});
  EXPECT_NE(one, more);
  EXPECT_EQ(one.difference(more), "expected 6 parts in 4 layers, found 7 in 6");
  EXPECT_EQ(more.difference(one), "expected 7 parts in 6 layers, found 6 in 4");
  StateLayout other;
  other.add("keys", StateKind::cache, 0, {2, 4});
  other.add("values", StateKind::cache, 0, {6, 2});
  EXPECT_EQ(one.difference(other),
            "expected values of layer 0 (2, 6), found values of layer 0 (6, 2)");
  StateLayout renamed, moved, kind;
  renamed.add("queries", StateKind::cache, 0, {2, 4});
  moved.add("keys", StateKind::cache, 2, {2, 4});
  kind.add("keys", StateKind::shift, 0, {2, 4});
  for (const StateLayout& wrong : {renamed, moved, kind}) EXPECT_NE(one.difference(wrong), "");
}

TEST(StateLayout, OfLayersThatAreAlike) {
  const StateLayout layout = shifts_and_square_heads(3, 10, 2, 5);
  ASSERT_EQ(layout.parts().size(), 9u);
  EXPECT_EQ(layout.floats(), 3 * 2 * 10 + 3 * 2 * 25);
  EXPECT_EQ(layout.parts()[1].name, "channel mix shift");
  EXPECT_EQ(layout.parts()[1].offset, 10);
  EXPECT_EQ(layout.parts()[4].name, "time mix shift");
  EXPECT_EQ(layout.parts()[4].layer, 2);
  EXPECT_EQ(layout.parts()[7].kind, StateKind::memory);
  EXPECT_EQ(layout.parts()[7].offset, 60 + 50);
  EXPECT_EQ(layout.heads().size(), 6u);
  EXPECT_EQ(layout.heads_of(2).first, 4);
}

TEST(StateLayout, RefusesPartsWithoutAPlace) {
  StateLayout layout;
  EXPECT_DEATH(layout.add("memory", StateKind::memory, 0, {4, 4}), "heads, values and keys");
  EXPECT_DEATH(layout.add("shift", StateKind::shift, -1, {4}), "belongs to a layer");
  EXPECT_DEATH(layout.add("shift", StateKind::shift, 0, {}), "has a shape");
  for (const StateKind kind :
       {StateKind::memory, StateKind::shift, StateKind::convolution, StateKind::cache})
    EXPECT_FALSE(name_of(kind).empty());
}

}  // namespace
}  // namespace deltasane
