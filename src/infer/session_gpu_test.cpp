#include <gtest/gtest.h>

#include <cmath>

#include "model/rwkv7/checkpoint/write.h"
#include "infer/batch_step.h"
#include "infer/session.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small = test::small_gpu_rwkv7();

struct SessionOnGpu : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  fs::path path = scratch.path() / "model.safetensors", saved = scratch.path() / "state";

  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
    write_rwkv7_safetensors(path, RandomRwkv7(small, 1), StoredType::f32, {});
  }
  Rwkv7 open(const Device& device) const {
    Rwkv7Options options;
    options.device = device;
    options.weights = kernel::WeightType::f32;
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
  std::vector<int32_t> tokens(int count) const {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(int32_t((i * 7919) % small.vocabulary));
    return out;
  }
};

TEST_F(SessionOnGpu, StateFilesAreTheSameOnEveryDevice) {
  const Rwkv7 gpu = open({0}), cpu = open({});
  Session there(gpu, {threads}), here(cpu, {threads});
  there.read(tokens(100));
  there.save(saved, "small", {});
  here.load(saved, "small", OtherSane::refuse);
  EXPECT_EQ(here.state().position, 100);
  EXPECT_TRUE(std::ranges::equal(here.state().memory().span(), there.state().memory().span()));
  EXPECT_TRUE(std::ranges::equal(here.state().shift().span(), there.state().shift().span()));
  here.save(scratch.path() / "again", "small", {});
  Session back(gpu, {threads});
  back.load(scratch.path() / "again", "small", OtherSane::refuse);
  const int32_t next[] = {7};
  there.read(next), back.read(next);
  EXPECT_TRUE(std::ranges::equal(there.logits(), back.logits()));
}

// What is picked on the GPU is what its logits say, for every one of few or many sequences; one of
// them has overflowed.
struct SequencesOnGpu : SessionOnGpu, testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Counts, SequencesOnGpu, testing::Values(2, 5, 70));

TEST_P(SequencesOnGpu, AreEachGivenWhatTheirLogitsSay) {
  const size_t count = GetParam(), broken = count / 2;
  const Rwkv7 model = open({0});
  std::vector<Sampler> samplers;
  std::vector<RecurrentState> states, others;
  std::vector<RecurrentState*> places;
  for (size_t i = 0; i < count; ++i) {
    SamplerSettings settings{i % 3 == 0 ? 0.0 : 0.5 * double(i % 3), i % 2 ? 0.9 : 1.0,
                             int64_t(i % 4) * 5, 0.4, 0.3};
    settings.seed = 11;
    samplers.emplace_back(settings, i);
    states.push_back(model.fresh_state());
    if (i == broken) states.back().mutable_memory().fill(NAN);
    others.push_back(states.back().clone());
  }
  for (RecurrentState& state : others) places.push_back(&state);
  std::vector<int32_t> tokens = this->tokens(int(count));
  BatchStep batch(model, {threads});
  Tensor<float> logits({int64_t(count), small.vocabulary});
  for (int step = 0; step < 5; ++step) {
    std::vector<kernel::cuda::TokenPenalty> penalties;
    std::vector<kernel::cuda::Picking> picking;
    std::vector<SteppedSequence> rows;
    for (size_t i = 0; i < count; ++i) {
      picking.push_back(samplers[i].picking(penalties));
      rows.push_back({tokens[i], &states[i], &samplers[i], {}});
    }
    batch.step(rows);
    model.step(tokens, places, logits.view(), {threads});
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(rows[i].state->position, step + 1);
      EXPECT_EQ(rows[i].next.has_value(), i != broken);
      if (i == broken) continue;
      const kernel::cuda::Picked expected = kernel::cuda::pick_by_one_thread(
          {logits.view().at(int64_t(i)), size_t(small.vocabulary)}, picking[i], penalties);
      ASSERT_EQ(*rows[i].next, expected.token) << "step " << step << ", sequence " << i;
      tokens[i] = *rows[i].next;
    }
  }
  EXPECT_EQ(samplers[0].state().draws, 5u);
  EXPECT_EQ(samplers[broken].state().draws, 0u);
}

// One sequence, through all of `read_and_pick`: with penalties, so that what was picked counts.
TEST_F(SessionOnGpu, ReadsAndPicksWhatItsLogitsSay) {
  const Rwkv7 model = open({0});
  for (const double temperature : {0.0, 0.9}) {
    SamplerSettings settings{temperature, 0.9, 30, 0.4, 0.3};
    settings.seed = 5;
    Session session(model, {threads}), other(model, {threads});
    Sampler sampler(settings), by_hand(settings);
    session.read(tokens(10)), other.read(tokens(10));
    int32_t token = sampler.next(session.logits());
    EXPECT_EQ(by_hand.next(other.logits()), token);
    for (int step = 0; step < 40; ++step) {
      other.read({&token, 1});
      std::vector<float> logits(other.logits().begin(), other.logits().end());
      std::vector<kernel::cuda::TokenPenalty> penalties;
      const kernel::cuda::Picking how = by_hand.picking(penalties);
      const kernel::cuda::Picked expected =
          kernel::cuda::pick_by_one_thread(logits, how, penalties);
      token = session.read_and_pick(token, sampler);
      ASSERT_EQ(token, by_hand.take(expected, small.vocabulary)) << "step " << step;
      ASSERT_EQ(sampler.state(), by_hand.state());
    }
    EXPECT_EQ(session.state().position, 50);
    EXPECT_TRUE(std::ranges::equal(session.state().memory().span(), other.state().memory().span()));
  }
}

// A head that is about to overflow is found by the scan on the GPU and named.
TEST_F(SessionOnGpu, OverflowIsNoticedAndNamed) {
  for (const Device& device : {Device{}, Device{0}}) {
    const Rwkv7 model = open(device);
    RecurrentState state = model.fresh_state();
    const View<float> memory = state.mutable_memory().view();
    for (int64_t i = 0; i < 64 * 64; ++i) memory.at(1, 2)[i] = i % 2 ? 3e38f : -3e38f;
    StateStamp stamp;
    stamp.model_identity = model.identity();
    stamp.model_name = "small";
    stamp.sane = model.sane();
    save_state(saved, state, stamp);
    for (const int count : {1, 40}) {
      Session session(model, {threads});
      session.load(saved, "small", OtherSane::refuse);
      // One token is scanned at chunk boundaries, or when its logits are broken.
      EXPECT_FAULT(session.read(tokens(count)), Fault::overflow, "in layer 1, head 2");
    }
  }
}

TEST_F(SessionOnGpu, ResetGoesOn) {
  const Rwkv7 model = open({0});
  RecurrentState state = model.fresh_state();
  state.mutable_memory().fill(3e38f);
  StateStamp stamp;
  stamp.model_identity = model.identity();
  stamp.model_name = "small";
  stamp.sane = model.sane();
  save_state(saved, state, stamp);
  Session session(model, {threads}, OnOverflow::reset);
  int resets = 0;
  session.on_reset = [&](const std::string&) { ++resets; };
  session.load(saved, "small", OtherSane::refuse);
  session.read(tokens(40));
  EXPECT_EQ(resets, 1);
  EXPECT_EQ(session.state().position, 40);
  EXPECT_TRUE(scan_state(session.state()).finite());
  session.load(saved, "small", OtherSane::refuse);
  Sampler sampler({1, 0.8, 20});
  for (const int32_t token : tokens(40)) session.read_and_pick(token, sampler);
  EXPECT_EQ(resets, 2);
  EXPECT_EQ(session.state().position, 40);
}

}  // namespace
}  // namespace deltasane
