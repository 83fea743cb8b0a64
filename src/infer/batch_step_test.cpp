#include "infer/batch_step.h"

#include <gtest/gtest.h>

#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

// The same as a step and a sampler by hand; a row that nobody wants, and one that overflows.
TEST(BatchStep, PicksFromEachSequencesOwnLogits) {
  constexpr int64_t count = 5, unwanted = 2, broken = 3;
  const test::Scratch scratch;
  const fs::path path = scratch.path() / "model.safetensors";
  const Rwkv7Shape shape = test::small_rwkv7(90);
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, {});
  const Rwkv7 model(Rwkv7Checkpoint(path), {});
  ThreadPool threads{2};
  SamplerSettings settings{1.1, 0.9, 0, 0.3, 0.2};
  settings.seed = 3;
  std::vector<Sampler> samplers, by_hand;
  std::vector<RecurrentState> states;
  for (int64_t i = 0; i < count; ++i) {
    samplers.emplace_back(settings, uint64_t(i));
    states.push_back(model.fresh_state());
  }
  states[broken].mutable_memory().fill(std::numeric_limits<float>::quiet_NaN());
  by_hand = samplers;
  std::vector<RecurrentState> others;
  std::vector<RecurrentState*> places;
  for (const RecurrentState& state : states) others.push_back(state.clone());
  for (RecurrentState& state : others) places.push_back(&state);
  BatchStep batch(model, {threads});
  std::vector<int32_t> tokens{1, 2, 3, 4, 5};
  Tensor<float> logits({count, shape.vocabulary});
  for (int step = 0; step < 20; ++step) {
    std::vector<SteppedSequence> rows;
    for (int64_t i = 0; i < count; ++i)
      rows.push_back({tokens[size_t(i)], &states[size_t(i)],
                      i == unwanted ? nullptr : &samplers[size_t(i)], 7});
    batch.step(rows);
    model.step(tokens, places, logits.view(), {threads});
    for (int64_t i = 0; i < count; ++i) {
      const SteppedSequence& row = rows[size_t(i)];
      ASSERT_EQ(row.next.has_value(), i != unwanted && i != broken) << i;
      if (!row.next) continue;
      tokens[size_t(i)] = by_hand[size_t(i)].next({logits.view().at(i), size_t(shape.vocabulary)});
      ASSERT_EQ(*row.next, tokens[size_t(i)]) << "step " << step << ", sequence " << i;
    }
  }
  EXPECT_EQ(samplers[broken].state(), (SamplerState{3, broken, 0, {}}));
  EXPECT_EQ(samplers[0].state(), by_hand[0].state());
}

}  // namespace
}  // namespace deltasane
