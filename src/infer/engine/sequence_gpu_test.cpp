#include <gtest/gtest.h>

#include <cmath>

#include "infer/engine/engine.h"
#include "kernel/sampler/cuda.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small = test::small_gpu_rwkv7();

struct SequenceOnGpu : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  fs::path path = scratch.path() / "model.safetensors", saved = scratch.path() / "state";

  void SetUp() override {
    if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
    write_rwkv7_safetensors(path, RandomRwkv7(small, 1), StoredType::f32, {});
  }
  Rwkv7 open(const Device& device) const {
    OpenOptions options;
    options.device = device;
    options.weights = kernel::WeightType::f32;
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }
  std::vector<int32_t> tokens(int count) const {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(int32_t((i * 7919) % small.vocabulary));
    return out;
  }
  // Reads a token and draws the next, which is done on the GPU.
  int32_t read_and_sample(const Rwkv7& model, Sequence& sequence, int32_t token, Sampler& sampler) {
    kernel::SampledToken sampled;
    sequence.append({&token, 1});
    SequenceInput input = sequence.next_input(sampler, sampled);
    model.forward(input, {threads});
    sequence.take_results(input);
    return sampled.token;
  }
};

TEST_F(SequenceOnGpu, StateFilesAreTheSameOnEveryDevice) {
  const Rwkv7 gpu = open({0}), cpu = open({});
  Sequence there(gpu, {threads}), here(cpu, {threads});
  there.read(tokens(100));
  there.save(saved, "small", {});
  here.load(saved, "small", OtherSane::refuse);
  EXPECT_EQ(here.state().position, 100);
  EXPECT_TRUE(std::ranges::equal(test::memories(here.state()), test::memories(there.state())));
  EXPECT_TRUE(std::ranges::equal(test::shifts(here.state()), test::shifts(there.state())));
  here.save(scratch.path() / "again", "small", {});
  Sequence back(gpu, {threads});
  back.load(scratch.path() / "again", "small", OtherSane::refuse);
  const int32_t next[] = {7};
  there.read(next), back.read(next);
  EXPECT_TRUE(std::ranges::equal(there.logits(), back.logits()));
}

// What is picked on the GPU is what its logits say, for every one of few or many sequences; one of
// them has overflowed, and after the first tokens of some nothing is wanted.
struct SequencesOnGpu : SequenceOnGpu, testing::WithParamInterface<size_t> {};
INSTANTIATE_TEST_SUITE_P(Counts, SequencesOnGpu, testing::Values(2, 5, 70));

TEST_P(SequencesOnGpu, AreEachGivenWhatTheirLogitsSay) {
  const size_t count = GetParam(), broken = count / 2;
  const Rwkv7 model = open({0});
  std::vector<Sampler> samplers;
  std::vector<SequenceState> states, others;
  std::vector<SequenceState*> places;
  for (size_t i = 0; i < count; ++i) {
    SamplerSettings settings{i % 3 == 0 ? 0.0 : 0.5 * double(i % 3), i % 2 ? 0.9 : 1.0,
                             int64_t(i % 4) * 5, 0.4, 0.3};
    settings.seed = 11;
    samplers.emplace_back(settings, i);
    states.push_back(model.fresh_state());
    if (i == broken) std::ranges::fill(test::mutable_memories(states.back()), NAN);
    others.push_back(states.back().clone());
  }
  for (SequenceState& state : others) places.push_back(&state);
  std::vector<int32_t> tokens = this->tokens(int(count));
  Tensor<float> logits({int64_t(count), small.vocabulary});
  for (int step = 0; step < 5; ++step) {
    std::vector<kernel::TokenPenalty> penalties;
    std::vector<kernel::SamplingParams> picking;
    std::vector<SequenceInput> batch;
    std::vector<kernel::SampledToken> sampled(count);
    const auto is_unread = [&](size_t i) { return i % 7 == 1 && i != broken && step < 2; };
    for (size_t i = 0; i < count; ++i) {
      picking.push_back(samplers[i].params(penalties));
      batch.push_back({{&tokens[i], 1}, &states[i]});
      if (is_unread(i)) continue;
      batch[i].want = Want::sample;
      batch[i].sampler = &samplers[i], batch[i].sampled = &sampled[i];
    }
    model.forward(batch, {threads});
    test::step(model, tokens, places, logits.view(), {threads});
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(states[i].position, step + 1);
      EXPECT_EQ(sampled[i].broken >= 0, i == broken);
      if (i == broken || is_unread(i)) continue;
      const kernel::SampledToken expected = kernel::cuda::sample_row_on_host(
          {logits.view().at(int64_t(i)), size_t(small.vocabulary)}, picking[i], penalties);
      ASSERT_EQ(sampled[i].token, expected.token) << "step " << step << ", sequence " << i;
      tokens[i] = sampled[i].token;
    }
  }
  EXPECT_EQ(samplers[0].state().draws, 5u);
  EXPECT_EQ(samplers[broken].state().draws, 0u);
}

// One sequence, through all of a step: with penalties, so that what was drawn counts.
TEST_F(SequenceOnGpu, ReadsAndDrawsWhatItsLogitsSay) {
  const Rwkv7 model = open({0});
  for (const double temperature : {0.0, 0.9}) {
    SamplerSettings settings{temperature, 0.9, 30, 0.4, 0.3};
    settings.seed = 5;
    Sequence sequence(model, {threads}), other(model, {threads});
    Sampler sampler(settings), by_hand(settings);
    sequence.read(tokens(10)), other.read(tokens(10));
    int32_t token = sampler.next(sequence.logits());
    EXPECT_EQ(by_hand.next(other.logits()), token);
    for (int step = 0; step < 40; ++step) {
      other.read({&token, 1});
      std::vector<float> logits(other.logits().begin(), other.logits().end());
      std::vector<kernel::TokenPenalty> penalties;
      const kernel::SamplingParams how = by_hand.params(penalties);
      const kernel::SampledToken expected =
          kernel::cuda::sample_row_on_host(logits, how, penalties);
      token = read_and_sample(model, sequence, token, sampler);
      ASSERT_EQ(token, by_hand.accept(expected, small.vocabulary)) << "step " << step;
      ASSERT_EQ(sampler.state(), by_hand.state());
    }
    EXPECT_EQ(sequence.state().position, 50);
    EXPECT_TRUE(
        std::ranges::equal(test::memories(sequence.state()), test::memories(other.state())));
  }
}

// A head that is about to overflow is found by the scan on the GPU and named.
TEST_F(SequenceOnGpu, OverflowIsNoticedAndNamed) {
  for (const Device& device : {Device{}, Device{0}}) {
    const Rwkv7 model = open(device);
    SequenceState state = model.fresh_state();
    const View<float> memory = test::memory_view(state);
    for (int64_t i = 0; i < 64 * 64; ++i) memory.at(1, 2)[i] = i % 2 ? 3e38f : -3e38f;
    StateStamp stamp;
    stamp.model_identity = model.identity();
    stamp.model_name = "small";
    stamp.sane = model.sane();
    save_state(saved, state, stamp);
    for (const int count : {1, 40}) {
      Sequence sequence(model, {threads});
      sequence.load(saved, "small", OtherSane::refuse);
      // One token is scanned at chunk boundaries, or when its logits are broken.
      EXPECT_FAULT(sequence.read(tokens(count)), Fault::overflow, "in layer 1, head 2");
    }
  }
}

TEST_F(SequenceOnGpu, ResetGoesOn) {
  const Rwkv7 model = open({0});
  SequenceState state = model.fresh_state();
  std::ranges::fill(test::mutable_memories(state), 3e38f);
  StateStamp stamp;
  stamp.model_identity = model.identity();
  stamp.model_name = "small";
  stamp.sane = model.sane();
  save_state(saved, state, stamp);
  Sequence sequence(model, {threads}, OnOverflow::reset);
  int resets = 0;
  sequence.on_reset = [&](const std::string&) { ++resets; };
  sequence.load(saved, "small", OtherSane::refuse);
  sequence.read(tokens(40));
  EXPECT_EQ(resets, 1);
  EXPECT_EQ(sequence.state().position, 40);
  EXPECT_TRUE(scan_state(sequence.state()).finite());
  sequence.load(saved, "small", OtherSane::refuse);
  Sampler sampler({1, 0.8, 20});
  for (const int32_t token : tokens(40)) read_and_sample(model, sequence, token, sampler);
  EXPECT_EQ(resets, 2);
  EXPECT_EQ(sequence.state().position, 40);
}

// What generate does: a prompt in chunks, then tokens drawn on the GPU, with a state that continues.
TEST_F(SequenceOnGpu, EngineWritesWhatASequenceWritesByHand) {
  const Rwkv7 model = open({0});
  const ByteTokenizer tokenizer;
  const SamplerSettings settings{0.9, 0.9, 30, 0.4, 0.3};
  Sequence by_hand(model, {threads});
  Sampler sampler(settings);
  by_hand.read(tokens(100));
  int32_t token = sampler.next(by_hand.logits());
  std::string text(1, char(token));
  for (int i = 1; i < 40; ++i) {
    token = read_and_sample(model, by_hand, token, sampler);
    text += char(token);
  }
  std::string written;
  TextRequest request{0, model.fresh_state(), tokens(100), {Sampler(settings)}};
  for (const int64_t some : {15, 25}) {
    Engine engine(model, tokenizer, {threads}, {.tokens = some, .tells_beside = some == 25});
    std::optional<GeneratedText> found;
    engine.on_end = [&](GeneratedText one) { found = std::move(one); };
    engine.submit(std::move(request));
    while (engine.step()) {
    }
    ASSERT_TRUE(found && found->pending);
    written += found->text;
    request = {1, std::move(found->state), {*found->pending}, {found->sampler}};
  }
  EXPECT_EQ(request.samplers[0].state(), sampler.state());
  EXPECT_EQ(request.prompt[0], token);
  EXPECT_EQ(written, text);
  EXPECT_TRUE(std::ranges::equal(request.state.fixed(), by_hand.state().fixed()));
}

}  // namespace
}  // namespace deltasane
