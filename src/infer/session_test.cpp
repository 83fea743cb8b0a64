#include "infer/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/rwkv7/checkpoint/write.h"
#include "infer/sampler.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape small = test::small_rwkv7(50);

struct SessionTest : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  fs::path path = write(1);
  Rwkv7 model{Rwkv7Checkpoint(path), {}};

  fs::path write(uint64_t seed) {
    const fs::path file = scratch.path() / cat("model", seed, ".safetensors");
    write_rwkv7_safetensors(file, RandomRwkv7(small, seed), StoredType::f32, {});
    return file;
  }
  std::vector<int32_t> tokens(int count) const {
    std::vector<int32_t> out;
    for (int i = 0; i < count; ++i) out.push_back(int32_t((i * 7919) % small.vocabulary));
    return out;
  }
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(SessionTest, GoesOnFromAStateFileAsIfItHadNeverStopped) {
  const SamplerSettings settings{.temperature = 1.0, .top_p = 0.9, .top_k = 0, .seed = 4};
  Session whole(model, {threads});
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
  Session resumed(again, {threads});
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
  EXPECT_TRUE(same_bits(whole.state().memory().span(), resumed.state().memory().span()));
  EXPECT_EQ(whole.state().position, resumed.state().position);
}

TEST_F(SessionTest, RefusesTheStateOfAnotherModel) {
  Session session(model, {threads});
  session.read(tokens(3));
  session.save(scratch.path() / "state", "small", {});
  const Rwkv7 other{Rwkv7Checkpoint(write(2)), {}};
  Session stranger(other, {threads});
  EXPECT_FAULT(stranger.load(scratch.path() / "state", "other", OtherSane::refuse), Fault::file,
               "a state belongs to the model that made it");
}

// A model whose decay is 1 and whose values are huge overflows in float.
struct Exploding : RandomRwkv7 {
  Exploding() : RandomRwkv7(small, 3) {}
  Tensor<float> read(std::string_view name) const override {
    Tensor<float> tensor = RandomRwkv7::read(name);
    if (name == "blocks.1.att.value.weight")
      for (float& x : tensor.span()) x *= 1e38f;
    if (name == "blocks.1.att.w0") tensor.fill(-100);
    return tensor;
  }
};

TEST_F(SessionTest, NamesTheChunkLayerAndHeadThatOverflowed) {
  const fs::path file = scratch.path() / "exploding.safetensors";
  write_rwkv7_safetensors(file, Exploding(), StoredType::f32, {});
  const Rwkv7 exploding{Rwkv7Checkpoint(file), {}};
  Session stops(exploding, {threads});
  EXPECT_FAULT(stops.read(tokens(600)), Fault::overflow, "layer 1");
  EXPECT_EQ(stops.state().position % 16, 0);
  EXPECT_TRUE(scan_state(stops.state()).finite());

  Session resets(exploding, {threads}, OnOverflow::reset);
  int times = 0;
  resets.on_reset = [&](const std::string&) { ++times; };
  resets.read(tokens(600));
  EXPECT_GT(times, 0);
  EXPECT_EQ(resets.state().position, 600);
}

TEST_F(SessionTest, ReadsTheSameInOneCallOrInMany) {
  Session once(model, {threads}), often(model, {threads});
  const auto all = tokens(1100);
  once.read(all);
  for (size_t from = 0; from < all.size(); from += 64)
    often.read(std::span(all).subspan(from, std::min<size_t>(64, all.size() - from)));
  EXPECT_EQ(once.state().position, often.state().position);
  for (int64_t i = 0; i < once.state().memory().elements(); ++i)
    EXPECT_NEAR(once.state().memory()[i], often.state().memory()[i], 1e-4);
}

}  // namespace
}  // namespace deltasane
