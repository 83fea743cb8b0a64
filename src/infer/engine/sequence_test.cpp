#include "infer/engine/sequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/fixture_touchy.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape fifty_tokens = test::small_rwkv7(50);

struct SequenceTest : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  fs::path path = write(1);
  Rwkv7 model{Rwkv7Checkpoint(path), {}};

  fs::path write(uint64_t seed) {
    const fs::path file = scratch.path() / cat("model", seed, ".safetensors");
    write_rwkv7_safetensors(file, RandomRwkv7(fifty_tokens, seed), StoredType::f32, {});
    return file;
  }
  std::vector<int32_t> tokens(int count) const {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(int32_t((i * 7919) % fifty_tokens.vocabulary));
    return out;
  }
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(SequenceTest, GoesOnFromAStateFileAsIfItHadNeverStopped) {
  const SamplerSettings settings{.temperature = 1.0, .top_p = 0.9, .top_k = 0, .seed = 4};
  Sequence whole(model, {threads});
  Sampler sampler(settings);
  whole.read(tokens(100));
  for (int i = 0; i < 37; ++i) {
    const int32_t token = sampler.next(whole.logits());
    whole.read({&token, 1});
  }
  const int32_t pending = sampler.next(whole.logits());
  StateStamp stamp;
  stamp.last_token = pending;
  stamp.sampler = sampler.state().save();
  whole.save(scratch.path() / "state", "small", stamp);

  const Rwkv7 again{Rwkv7Checkpoint(path), {}};  // as another process would
  Sequence resumed(again, {threads});
  const StateStamp found = resumed.load(scratch.path() / "state", "small", OtherSane::refuse);
  Sampler second(settings, SamplerState::load(found.sampler));
  whole.read({&pending, 1});
  resumed.read({&*found.last_token, 1});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(same_bits(whole.logits(), resumed.logits())) << i;
    const int32_t token = sampler.next(whole.logits());
    ASSERT_EQ(second.next(resumed.logits()), token);
    whole.read({&token, 1});
    resumed.read({&token, 1});
  }
  EXPECT_TRUE(same_bits(test::memories(whole.state()), test::memories(resumed.state())));
  EXPECT_EQ(whole.state().position, resumed.state().position);
}

// A position counts in 64 bits, and matters only by its place in a chunk of 16, where SANE acts.
TEST_F(SequenceTest, CountsPastThirtyTwoBits) {
  OpenOptions options;
  options.sane.alpha = 1;
  const Rwkv7 with_sane{Rwkv7Checkpoint(path), options};
  for (const int64_t limit : {int64_t{1} << 31, int64_t{1} << 32}) {
    Sequence near(with_sane, {threads});
    near.read(tokens(11));
    SequenceState moved = near.state().clone();
    moved.position = limit - 5;
    Sequence far(with_sane, {threads}, OnOverflow::stop, std::move(moved));
    for (int i = 0; i < 3; ++i) {
      near.read(tokens(20));
      far.read(tokens(20));
      EXPECT_TRUE(same_bits(near.logits(), far.logits())) << limit << " " << i;
    }
    EXPECT_EQ(far.state().position, limit + 55);
    far.save(scratch.path() / "far", "small", {});
    Sequence loaded(with_sane, {threads});
    loaded.load(scratch.path() / "far", "small", OtherSane::refuse);
    EXPECT_EQ(loaded.state().position, limit + 55);
    near.read(tokens(1));
    loaded.read(tokens(1));
    EXPECT_TRUE(same_bits(near.logits(), loaded.logits())) << limit;
  }
}

TEST_F(SequenceTest, RefusesTheStateOfAnotherModel) {
  Sequence sequence(model, {threads});
  sequence.read(tokens(3));
  sequence.save(scratch.path() / "state", "small", {});
  const Rwkv7 other{Rwkv7Checkpoint(write(2)), {}};
  Sequence stranger(other, {threads});
  EXPECT_FAULT(stranger.load(scratch.path() / "state", "other", OtherSane::refuse), Fault::file,
               "a state belongs to the model that made it");
}

TEST_F(SequenceTest, NamesTheChunkLayerAndHeadThatOverflowed) {
  const fs::path file = scratch.path() / "exploding.safetensors";
  const test::OverflowingRwkv7 source(fifty_tokens, 1e38f, test::OverflowingRwkv7::Decay::one);
  write_rwkv7_safetensors(file, source, StoredType::f32, {});
  const Rwkv7 exploding{Rwkv7Checkpoint(file), {}};
  Sequence stops(exploding, {threads});
  EXPECT_FAULT(stops.read(tokens(600)), Fault::overflow, "layer 1");
  EXPECT_EQ(stops.state().position % 16, 0);
  EXPECT_TRUE(scan_state(stops.state()).finite());

  Sequence resets(exploding, {threads}, OnOverflow::reset);
  int times = 0;
  resets.on_reset = [&](const std::string&) { ++times; };
  resets.read(tokens(600));
  EXPECT_GT(times, 0);
  EXPECT_EQ(resets.state().position, 600);
}

// What a scheduler does with a sequence is what read() does, and a sampler's by hand.
TEST_F(SequenceTest, InputsAndResultsAreThoseOfReading) {
  const SamplerSettings settings{.temperature = 1.0, .top_p = 0.9, .top_k = 0, .seed = 4};
  Sequence by_hand(model, {threads}), driven(model, {threads});
  Sampler expected(settings), sampler(settings);
  const auto prompt = tokens(700);  // several inputs
  by_hand.read(prompt);
  driven.append(prompt);
  kernel::SampledToken sampled;
  int inputs = 0;
  for (int written = 0; written < 40;) {
    SequenceInput input = driven.next_input(sampler, sampled);
    const bool is_last = size_t(driven.state().position) + input.tokens.size() >= prompt.size();
    EXPECT_EQ(input.want, is_last ? Want::sample : Want::nothing);
    model.forward(input, {threads});
    EXPECT_TRUE(driven.take_results(input));
    ++inputs;
    if (driven.is_reading()) continue;
    const int32_t token = expected.next(by_hand.logits());
    ASSERT_EQ(sampled.token, token) << written;
    by_hand.read({&token, 1});
    driven.append({&token, 1});
    ++written;
  }
  EXPECT_EQ(inputs, 2 + 39);
  const SequenceInput last = driven.next_input(Want::nothing);
  model.forward(last, {threads});
  driven.take_results(last);
  EXPECT_TRUE(same_bits(by_hand.state().fixed(), driven.state().fixed()));
  EXPECT_EQ(expected.state(), sampler.state());
}

TEST_F(SequenceTest, ASingleTokenThatOverflowsIsReadAgainAfterAReset) {
  for (const OnOverflow policy : {OnOverflow::stop, OnOverflow::reset, OnOverflow::end}) {
    SequenceState state = model.fresh_state();
    state.position = 5;
    for (float& number : test::mutable_memories(state)) number = 3e38f;
    Sequence sequence(model, {threads}, policy, std::move(state));
    std::string message;
    sequence.on_reset = [&](const std::string& one) { message = one; };
    Sampler sampler(SamplerSettings{.temperature = 0});
    kernel::SampledToken sampled;
    const auto read = [&] {
      const int32_t token = 7;
      sequence.append({&token, 1});
      SequenceInput input = sequence.next_input(sampler, sampled);
      model.forward(input, {threads});
      return sequence.take_results(input);
    };
    if (policy == OnOverflow::stop) {
      EXPECT_FAULT(read(), Fault::overflow, "state overflowed at position 5 in layer 0");
    } else if (policy == OnOverflow::end) {
      EXPECT_FALSE(read());
      EXPECT_GE(sampled.broken, 0);
    } else {
      EXPECT_TRUE(read());
      EXPECT_NE(message.find("state overflowed at position 5 in layer 0"), message.npos);
      EXPECT_EQ(sequence.state().position, 6);
      Sequence fresh(model, {threads});
      const int32_t token = 7;
      fresh.read({&token, 1});
      EXPECT_TRUE(same_bits(sequence.state().fixed(), fresh.state().fixed()));
      EXPECT_EQ(sampled.token, Sampler(SamplerSettings{.temperature = 0}).next(fresh.logits()));
      EXPECT_EQ(sampler.state().draws, 1u);
    }
  }
}

TEST_F(SequenceTest, ReadsTheSameInOneCallOrInMany) {
  Sequence once(model, {threads}), often(model, {threads});
  const auto all = tokens(1100);
  once.read(all);
  for (size_t from = 0; from < all.size(); from += 64)
    often.read(std::span(all).subspan(from, std::min<size_t>(64, all.size() - from)));
  EXPECT_EQ(once.state().position, often.state().position);
  for (size_t i = 0; i < test::memories(once.state()).size(); ++i)
    EXPECT_NEAR(test::memories(once.state())[i], test::memories(often.state())[i], 1e-4);
}

}  // namespace
}  // namespace deltasane
