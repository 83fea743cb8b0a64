#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/model.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {
namespace {

std::vector<int32_t> tokens_to_read(int64_t count) {
  Random random(5);
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(int32_t(random.below(uint64_t(test::small_gpu_rwkv7().vocabulary))));
  return tokens;
}

Rwkv7 model_in(const fs::path& folder, SaneKind kind) {
  Rwkv7Shape shape = test::small_gpu_rwkv7();
  OpenOptions options;
  options.device = {0}, options.weights = kernel::WeightType::f32;
  Metadata metadata;
  if (kind == SaneKind::trained)
    shape.sane = true, metadata = {{"sane.alpha", "3"}, {"sane.chunk", "16"}};
  else
    options.sane.alpha = 3;
  const fs::path path = folder / "model.safetensors";
  write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, metadata);
  return Rwkv7(Rwkv7Checkpoint(path), options);
}

class AlphasOnGpu : public testing::TestWithParam<SaneKind> {};

// One reading whose alphas follow the heads on the GPU, and one that stops at every look and lets
// the definition set them, from inside a tile on. Both have the same blocks, so the same bits.
TEST_P(AlphasOnGpu, FollowTheHeadsAsTheDefinitionDoes) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
  const test::Scratch scratch;
  ThreadPool threads(2);
  const Rwkv7 model = model_in(scratch.path(), GetParam());
  const Rwkv7Shape& shape = model.shape();
  constexpr int64_t count = 3, before = 7, time = 6 * AdaptiveSane::every + 100;
  const auto tokens = tokens_to_read(before + time + count);
  const auto heads = size_t(shape.layers * shape.heads);
  struct Followed {
    std::vector<SequenceState> states;
    std::vector<AdaptiveSane> adaptive = std::vector<AdaptiveSane>(size_t(count));
    std::vector<std::vector<double>> losses;
  } there, here;
  const auto read = [&](Followed& all, int64_t some, bool on_gpu) {
    std::vector<SequenceInput> sequences;
    for (size_t i = 0; i < size_t(count); ++i) {
      const auto from = size_t(all.states[i].position) + i, length = size_t(some);
      sequences.push_back(test::scored(std::span(tokens).subspan(from, length),
                                       std::span(tokens).subspan(from + 1, length), all.states[i],
                                       std::span(all.losses[i]).subspan(from - i, length), nullptr,
                                       on_gpu ? &all.adaptive[i] : nullptr));
    }
    model.forward(sequences, {threads});
    for (size_t i = 0; !on_gpu && i < size_t(count); ++i)
      all.adaptive[i].follow(all.states[i], model.sane().alpha);
  };
  for (Followed* const all : {&there, &here}) {
    for (int64_t i = 0; i < count; ++i) all->states.push_back(model.fresh_state());
    all->losses.assign(size_t(count), std::vector<double>(size_t(before + time), NAN));
    read(*all, before, all == &there);
  }
  read(there, 2 * AdaptiveSane::every, true);
  for (int64_t left = 2 * AdaptiveSane::every; left > 0;) {
    const int64_t some = std::min(left, AdaptiveSane::until_next(here.states[0].position));
    read(here, some, false), left -= some;
  }
  for (Followed* const all : {&there, &here})
    for (AdaptiveSane& one : all->adaptive) {
      ASSERT_EQ(one.references.size(), heads);
      // Some heads seem to have grown from here on.
      for (size_t head = 0; head < heads; head += 2) one.references[head] /= 4;
    }
  read(there, time - 2 * AdaptiveSane::every, true);
  for (int64_t left = time - 2 * AdaptiveSane::every; left > 0;) {
    const int64_t some = std::min(left, AdaptiveSane::until_next(here.states[0].position));
    read(here, some, false), left -= some;
  }
  for (size_t i = 0; i < size_t(count); ++i) {
    SCOPED_TRACE(cat("sequence ", i));
    EXPECT_EQ(there.adaptive[i].references, here.adaptive[i].references);
    EXPECT_EQ(there.states[i].alphas, here.states[i].alphas);
    EXPECT_EQ(there.losses[i], here.losses[i]);
    EXPECT_TRUE(
        std::ranges::equal(test::memories(there.states[i]), test::memories(here.states[i])));
    EXPECT_EQ(there.states[i].position, before + time);
    ASSERT_EQ(there.states[i].alphas.size(), heads);
    EXPECT_LT(there.states[i].alphas[0], there.states[i].alphas[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Sane, AlphasOnGpu, testing::Values(SaneKind::run_time, SaneKind::trained));

}  // namespace
}  // namespace deltasane
