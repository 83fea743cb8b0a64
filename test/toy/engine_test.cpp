// Sequences and the engine with states that grow and whose parts differ.
#include "infer/engine/engine.h"

#include <gtest/gtest.h>

#include "format/open.h"
#include "support/errors.h"
#include "text/byte_tokenizer.h"
#include "toy/fixture.h"
#include "toy/model.h"

namespace deltasane::toy {
namespace {

// Keeps what each forward call was given.
struct WatchedToy : Toy {
  struct Call {
    int64_t position, tokens;
    Want want;
    size_t cache;  // rows, afterwards
  };
  mutable std::vector<Call> calls;

  explicit WatchedToy(const fs::path& path)
      : Toy(std::make_unique<Checkpoint>(open_tensor_file(path)), {}) {}
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override {
    std::vector<int64_t> positions;
    for (const SequenceInput& one : batch) positions.push_back(one.state->position);
    Toy::run(batch, cpu);
    for (size_t i = 0; i < batch.size(); ++i)
      calls.push_back({positions[i], int64_t(batch[i].tokens.size()), batch[i].want,
                       batch[i].state->cache(0).size() / 10});
  }
};

Sampler sampler_of(uint64_t stream) { return Sampler(SamplerSettings{.seed = 3}, stream); }

// What a request's texts are when tokens are read and sampled one by one.
struct ByHand {
  std::string text;
  SequenceState state;
  int32_t pending = 0;
};
ByHand by_hand(const OpenToy& toy, const std::vector<int32_t>& prompt, Sampler sampler, int count) {
  ByHand found{"", toy.model->fresh_state(), 0};
  std::vector<float> logits = toy.logits_after(prompt, found.state);
  for (int i = 0; i < count; ++i) {
    if (i > 0) logits = toy.logits_after({&found.pending, 1}, found.state);
    found.pending = sampler.next(logits);
    found.text += char(found.pending);
  }
  return found;
}

TEST(ToyEngine, WritesTextsOfManyLengthsAsIfEachWereAlone) {
  const OpenToy toy({.sane = SaneSettings{0.5, 10}});
  constexpr int tokens = 30;
  const int64_t lengths[] = {1, 200, 17, 96, 33, 128};
  for (const bool invariant : {false, true}) {
    const ByteTokenizer tokenizer;
    Engine engine(*toy.model, tokenizer, toy.cpu,
                  {.stops = {}, .tokens = tokens, .batch = 4, .batch_invariant = invariant});
    std::map<std::pair<uint64_t, size_t>, GeneratedText> found;
    engine.on_end = [&](GeneratedText text) {
      const std::pair key{text.request, text.sample};
      found.emplace(key, std::move(text));
    };
    uint64_t next = 0;
    engine.run([&]() -> std::optional<TextRequest> {
      if (next == std::size(lengths)) return std::nullopt;
      TextRequest request{next, toy.model->fresh_state(), random_bytes(lengths[next], next), {}};
      for (uint64_t sample = 0; sample <= next % 3; ++sample)
        request.samplers.push_back(sampler_of(10 * next + sample));
      ++next;
      return request;
    });
    EXPECT_EQ(found.size(), 12u);
    for (const auto& [key, text] : found) {
      const auto [request, sample] = key;
      const ByHand alone = by_hand(toy, random_bytes(lengths[request], request),
                                   sampler_of(10 * request + sample), tokens);
      EXPECT_TRUE(same_bits(text.state, alone.state)) << request << ", " << sample;
      EXPECT_EQ(text.pending, alone.pending);
      EXPECT_EQ(text.tokens, tokens);
      EXPECT_EQ(text.state.position, lengths[request] + tokens - 1);
    }
  }
}

// Rows that nobody reads must not remember ever more.
TEST(ToyEngine, FillsUpABatchWithoutGrowingCaches) {
  const OpenToy toy;
  const WatchedToy watched(toy.path);
  const ByteTokenizer tokenizer;
  Engine engine(watched, tokenizer, toy.cpu, {.stops = {}, .tokens = 300, .batch_invariant = true});
  engine.submit({0, watched.fresh_state(), {1, 2, 3}, {sampler_of(0)}});
  while (engine.step()) {
  }
  size_t padding = 0;
  for (const WatchedToy::Call& call : watched.calls) {
    if (call.want != Want::nothing) continue;
    ++padding;
    EXPECT_LE(call.cache, 16u);
  }
  EXPECT_GT(padding, 1000u);
}

TEST(ToySequence, CutsALongInputWhereTheModelCan) {
  const OpenToy toy;
  const WatchedToy watched(toy.path);
  Sequence sequence(watched, toy.cpu);
  sequence.read(random_bytes(20, 1));
  sequence.read(random_bytes(300, 2));
  std::vector<std::pair<int64_t, int64_t>> calls;
  for (const WatchedToy::Call& call : watched.calls) calls.push_back({call.position, call.tokens});
  EXPECT_EQ(calls, (std::vector<std::pair<int64_t, int64_t>>{
                       {0, 20}, {20, 76}, {96, 96}, {192, 96}, {288, 32}}));
}

TEST(ToySequence, GoesOnFromAStateFileAsIfItHadNeverStopped) {
  const OpenToy toy({.sane = SaneSettings{0.5, 10}});
  Sequence whole(*toy.model, toy.cpu), resumed(*toy.model, toy.cpu);
  whole.read(random_bytes(101, 1));
  whole.save(toy.scratch.path() / "state", "toy", {});
  resumed.load(toy.scratch.path() / "state", "toy", OtherSane::refuse);
  for (int i = 0; i < 100; ++i) {
    const std::vector<int32_t> some = random_bytes(1 + i % 40, uint64_t(i));
    whole.read(some);
    resumed.read(some);
    ASSERT_TRUE(std::ranges::equal(whole.logits(), resumed.logits())) << i;
  }
  EXPECT_TRUE(same_bits(whole.state(), resumed.state()));
}

// Entries of layer 0, head 1 leave the range of floats after some 40 tokens, and break all that comes
// after them in the same chunk.
struct ToyOverflow : testing::Test {
  OpenToy toy{Plan{.decays = {{{0, 1}, 10.0}}}};
  std::vector<int32_t> tokens = random_bytes(200, 4);
};

TEST_F(ToyOverflow, StopsBeforeTheChunkAndNamesLayerAndHead) {
  Sequence sequence(*toy.model, toy.cpu);
  EXPECT_FAULT(sequence.read(tokens), Fault::overflow, "at position 63 in layer 0, head 1: row");
  EXPECT_EQ(sequence.state().position, 32);
  SequenceState before = toy.model->fresh_state();
  toy.logits_after(std::span(tokens).first(32), before);
  EXPECT_TRUE(same_bits(sequence.state(), before));
}

TEST_F(ToyOverflow, GoesOnAtTheSamePositionWithAnEmptyCacheAfterAReset) {
  Sequence sequence(*toy.model, toy.cpu, OnOverflow::reset);
  std::vector<std::string> messages;
  sequence.on_reset = [&](const std::string& message) { messages.push_back(message); };
  sequence.read(tokens);
  EXPECT_EQ(messages.size(), 3u);  // at 64, 128 and 192
  SequenceState last = toy.model->fresh_state();
  last.position = 192;
  const std::vector<float> logits = toy.logits_after(std::span(tokens).subspan(192), last);
  EXPECT_TRUE(same_bits(sequence.state(), last));
  EXPECT_TRUE(std::ranges::equal(sequence.logits(), logits));
  EXPECT_EQ(sequence.state().position, 200);
  EXPECT_EQ(sequence.state().cache(0).size(), 8u * 10);
}

// Breaks the state behind the first call, whose logits stay finite.
struct BreakingToy : Toy {
  mutable bool broke = false;

  explicit BreakingToy(const fs::path& path)
      : Toy(std::make_unique<Checkpoint>(open_tensor_file(path)), {}) {}
  void run(std::span<const SequenceInput> batch, const kernel::Cpu& cpu) const override {
    Toy::run(batch, cpu);
    if (std::exchange(broke, true)) return;
    SequenceState& state = *batch[0].state;
    state.mutable_of(state.layout().parts()[1])[0] = std::numeric_limits<float>::infinity();
  }
};

// A token that is sampled again after a reset is still one draw, and is counted once.
TEST(ToySequence, DrawsOnceWhereAStateIsReset) {
  const OpenToy toy;
  for (const size_t count : {1, 3}) {
    const BreakingToy breaking(toy.path);
    SequenceState state = breaking.fresh_state();
    state.position = 32 - int64_t(count);  // scanned at 32
    Sequence sequence(breaking, toy.cpu, OnOverflow::reset, std::move(state));
    int resets = 0;
    sequence.on_reset = [&](const std::string&) { ++resets; };
    Sampler sampler(SamplerSettings{.presence_penalty = 0.5, .seed = 3});
    const Sampler before = sampler;
    kernel::SampledToken sampled;
    sequence.append(random_bytes(int64_t(count), 1));
    const SequenceInput input = sequence.next_input(sampler, sampled);
    breaking.forward(input, toy.cpu);
    EXPECT_TRUE(sequence.take_results(input));
    EXPECT_EQ(resets, count == 1 ? 1 : 0);  // several tokens are read again, and now do not overflow
    EXPECT_EQ(sampler.state().draws, 1u);
    ASSERT_EQ(sampler.state().counts.size(), 1u);
    EXPECT_EQ(sampler.state().counts[0].token, sampled.token);
    Sampler by_hand = before;
    SequenceState fresh = toy.model->fresh_state();
    fresh.position = 32 - int64_t(count);
    EXPECT_EQ(by_hand.next(toy.logits_after(random_bytes(int64_t(count), 1), fresh)),
              sampled.token);
    EXPECT_EQ(by_hand.state(), sampler.state());
  }
}

TEST_F(ToyOverflow, EndsATextThatNobodyGuards) {
  const ByteTokenizer tokenizer;
  Engine engine(*toy.model, tokenizer, toy.cpu,
                {.stops = {}, .tokens = 500, .on_overflow = OnOverflow::end});
  std::optional<GeneratedText> found;
  engine.on_end = [&](GeneratedText text) { found = std::move(text); };
  engine.submit({0, toy.model->fresh_state(), {1, 2, 3}, {sampler_of(0)}});
  while (engine.step()) {
  }
  ASSERT_TRUE(found);
  EXPECT_EQ(found->ended, Ended::overflow);
  EXPECT_GT(found->tokens, 30);
  EXPECT_LT(found->tokens, 50);
}

}  // namespace
}  // namespace deltasane::toy
