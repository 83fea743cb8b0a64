// The toy keeps the laws that every model keeps; what is above relies on them.
#include <gtest/gtest.h>

#include <cmath>

#include "format/open.h"
#include "support/errors.h"
#include "toy/fixture.h"

namespace deltasane::toy {
namespace {

TEST(ToyModel, IsFoundByTheRegistry) {
  const OpenToy toy;
  EXPECT_EQ(toy.model->description().architecture, "toy");
  EXPECT_EQ(toy.model->vocabulary(), 256);
  EXPECT_EQ(toy.model->sane().kind, SaneKind::none);
}

TEST(ToyModel, HasAStateOfPartsThatDiffer) {
  const OpenToy toy;
  const StateLayout& layout = *toy.model->state_layout();
  EXPECT_EQ(layout.layers(), 3);
  EXPECT_EQ(layout.floats(), 2 * 8 + 2 * 6 * 4 + 3 * 5 * 3 + 2 * 7);
  EXPECT_EQ(layout.caches(), 1);
  EXPECT_EQ(layout.most_heads(), 4);
  EXPECT_EQ(layout.heads_of(1).count, 0);
  EXPECT_EQ(layout.heads_of(2).first, 2);
  EXPECT_EQ(layout.heads_of(2).count, 4);
  // Heads are numbered over all memories of their layer.
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const StateHead& head : layout.heads()) places.push_back({head.layer, head.head});
  EXPECT_EQ(places, (std::vector<std::pair<int64_t, int64_t>>{
                        {0, 0}, {0, 1}, {2, 0}, {2, 1}, {2, 2}, {2, 3}}));
  EXPECT_EQ(layout.heads()[5].rows, 2);
  EXPECT_EQ(layout.heads()[5].columns, 7);
}

TEST(ToyModel, ASequenceSplitAnywhereIsTheSame) {
  const OpenToy toy({.sane = SaneSettings{0.1, 10}});
  const std::vector<int32_t> tokens = random_bytes(37, 1);
  SequenceState whole = toy.model->fresh_state();
  const std::vector<float> logits = toy.logits_after(tokens, whole);
  EXPECT_EQ(whole.position, 37);
  EXPECT_EQ(whole.cache(0).size(), 37u * 2 * 5);
  for (size_t cut = 1; cut < tokens.size(); ++cut) {
    SequenceState state = toy.model->fresh_state();
    toy.logits_after(std::span(tokens).first(cut), state);
    EXPECT_EQ(toy.logits_after(std::span(tokens).subspan(cut), state), logits) << cut;
    EXPECT_TRUE(same_bits(state, whole)) << cut;
  }
}

TEST(ToyModel, EachPartOfTheStateMatters) {
  const OpenToy toy;
  const std::vector<int32_t> tokens = random_bytes(20, 2), next{65};
  SequenceState state = toy.model->fresh_state();
  toy.logits_after(tokens, state);
  SequenceState same = state.clone();
  const std::vector<float> logits = toy.logits_after(next, same);
  for (const StatePart& part : state.layout().parts()) {
    SequenceState other = state.clone();
    other.mutable_of(part)[0] += 1;
    EXPECT_NE(toy.logits_after(next, other), logits) << part.name << " of layer " << part.layer;
  }
}

// tau = alpha ln 2 + 1 at run time: the numbers are those of the formula, at absolute boundaries.
TEST(ToyModel, SaneHoldsMemoriesAndTellsTau) {
  const OpenToy toy({.decays = {{{2, 3}, 1.5}}}, {.alpha = 2.0});
  TauRecord taus(*toy.model->state_layout());
  SequenceState state = toy.model->fresh_state();
  const std::vector<int32_t> tokens = random_bytes(64, 3);
  toy.model->forward({.tokens = tokens, .state = &state, .taus = &taus}, toy.cpu);
  const double tau = 2 * std::log(2.0) + 1;
  for (size_t head = 0; head < 6; ++head) {
    EXPECT_EQ(taus[head].count, 4);
    EXPECT_EQ(taus[head].last, float(tau));
    for (const float entry : state.of(state.layout().heads()[head]))
      EXPECT_LE(std::abs(entry), float(tau));
  }
  SequenceState free = toy.model->fresh_state();
  const OpenToy without({.decays = {{{2, 3}, 1.5}}});
  without.logits_after(tokens, free);
  EXPECT_GT(std::abs(free.of(free.layout().heads()[5])[0]), 1e6f);
}

TEST(ToyModel, RefusesFilesThatAreNotWhole) {
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "toy.safetensors";
  write_toy(path);
  const Checkpoint good(open_tensor_file(path));
  Sizes sizes = good.sizes();
  sizes.layers[1].cache = 0;  // and so the layers end before the third
  sizes.layers[2].memories.pop_back();
  const fs::path other = scratch.path() / "other.safetensors";
  write(other, sizes, good, StoredType::f32, {});
  EXPECT_FAULT(open_checkpoint(other), Fault::file, "expected none of this name");
  EXPECT_FAULT(good.write_gguf(scratch.path() / "toy.gguf", {StoredType::f32}), Fault::usage,
               "expected .safetensors");
}

}  // namespace
}  // namespace deltasane::toy
