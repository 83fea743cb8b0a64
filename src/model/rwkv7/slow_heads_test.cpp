#include "model/rwkv7/slow_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr Rwkv7Shape tiny = test::small_rwkv7(256);

struct SlowHeadsTest : testing::Test {
  test::Scratch scratch;
  ThreadPool threads{2};
  RandomRwkv7 random{tiny, 1};

  Rwkv7 model(const SlowHeads& heads, const OpenOptions& options = {}) const {
    const fs::path path = scratch.path() / "model.safetensors";
    write_rwkv7_safetensors(path, SlowHeadsRwkv7(random, tiny, heads), StoredType::bf16, {});
    return Rwkv7(Rwkv7Checkpoint(path), options);
  }

  // The largest |S| after each of so many blocks of random tokens; infinity where it overflowed.
  std::vector<double> read(const Rwkv7& model, int64_t blocks, int64_t block = 1024) {
    Random draws(3);
    SequenceState state = model.fresh_state();
    std::vector<int32_t> tokens(static_cast<size_t>(block));
    std::vector<double> largest;
    while (int64_t(largest.size()) < blocks) {
      for (int32_t& token : tokens) token = int32_t(draws.below(uint64_t(tiny.vocabulary)));
      test::read(model, tokens, state, {threads});
      double most = 0;
      for (const float x : test::memories(state))
        most = std::isfinite(x) ? std::max(most, std::abs(double(x))) : INFINITY;
      largest.push_back(most);
      if (!std::isfinite(most)) break;
    }
    return largest;
  }
};

TEST_F(SlowHeadsTest, OverflowWhereARandomModelAndSaneDoNot) {
  const SlowHeads fast{.count = 2, .bias = -3};  // some hundred tokens for a factor of e
  const std::vector<double> baseline = read(model(fast), 32);
  EXPECT_FALSE(std::isfinite(baseline.back())) << baseline.back();
  const std::vector<double> without = read(model({}), 32);
  ASSERT_EQ(without.size(), 32u);
  const auto most = [&](size_t from) {
    return *std::max_element(without.begin() + int64_t(from), without.begin() + int64_t(from) + 16);
  };
  EXPECT_LT(most(16), 2 * most(0)) << "a random model forgets: nothing adds up";
  constexpr double alpha = 3;
  OpenOptions with_sane;
  with_sane.sane.alpha = alpha;
  const std::vector<double> sane = read(model(fast, with_sane), 32);
  ASSERT_EQ(sane.size(), 32u);
  EXPECT_LE(std::ranges::max(sane), alpha * std::log(2.0) + 1) << "above tau";
}

// What adds the same amount per token doubles from the middle to the end; this squares.
TEST_F(SlowHeadsTest, GrowExponentially) {
  const std::vector<double> largest = read(model({.count = 4}), 20, 2048);
  const double first = std::log(largest[9] / largest[4]),
               second = std::log(largest[19] / largest[9]);
  EXPECT_GT(second, 3 * std::log(2.0)) << "linear growth doubles";
  EXPECT_GT(second, first) << "twice as many tokens";
  // At this rate the state passes the largest float within a million tokens.
  EXPECT_LT(88 / (second / (10 * 2048)), 1e6);
}

TEST_F(SlowHeadsTest, LeaveAllElseAsItWas) {
  const SlowHeadsRwkv7 planted(random, tiny, {.count = 1});
  EXPECT_EQ(planted.heads_of(0), std::vector<int64_t>{0});
  EXPECT_EQ(planted.heads_of(1), std::vector<int64_t>{});
  const int64_t own = tiny.head_size;  // channels of the planted head, the first of the layer
  for (const std::string& name : planted.names()) {
    const Tensor<float> before = random.read(name), after = planted.read(name);
    ASSERT_EQ(before.shape(), after.shape()) << name;
    const bool in_rows = name == "blocks.0.att.key.weight";
    const bool of_norm = name.starts_with("blocks.0.ln1.");
    if (name == "blocks.0.att.x_k") continue;
    for (int64_t i = 0; i < before.elements(); ++i) {
      const int64_t last = before.shape()[before.shape().rank() - 1];
      const int64_t channel = in_rows ? i / last : i % last;
      const bool may_differ =
          name.starts_with("blocks.0.att.") ? channel < own : of_norm && channel == 0;
      ASSERT_TRUE(may_differ || before[i] == after[i]) << name << " " << i;
    }
  }
  const int64_t most = tiny.layers * tiny.heads;
  EXPECT_EQ(SlowHeadsRwkv7(random, tiny, {.count = most}).heads_of(1).size(), size_t(tiny.heads));
  for (const int64_t wrong : {int64_t(-1), most + 1})
    EXPECT_FAULT(SlowHeadsRwkv7(random, tiny, {.count = wrong}), Fault::usage, "expected 0 to 4");
}

}  // namespace
}  // namespace deltasane
