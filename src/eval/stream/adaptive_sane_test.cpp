#include "model/adaptive_sane.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/stream/fixture_stress.h"
#include "eval/stream/stream_folder.h"
#include "eval/stream/stream_run.h"
#include "model/fixture_forward.h"
#include "model/rwkv7/model.h"
#include "support/errors.h"
#include "support/scratch.h"
#include "text/byte_tokenizer.h"

namespace deltasane {
namespace {

// Two heads of one entry each.
SequenceState state_with(float first, float second, int64_t position) {
  SequenceState state(test::uniform_layout(1, 2, 2, 1));
  state.position = position;
  test::mutable_memories(state)[0] = first, test::mutable_memories(state)[1] = second;
  return state;
}

TEST(AdaptiveSane, LowersAlphaOfAHeadThatGrowsAndRelaxesItAgain) {
  AdaptiveSane adaptive;
  SequenceState state = state_with(1, -2, 512);
  adaptive.follow(state, 10);
  EXPECT_EQ(state.alphas, (std::vector<float>{10, 10}));
  EXPECT_EQ(adaptive.references, (std::vector<double>{1, 2}));
  const auto see = [&](float first, float second, int64_t position) {
    SequenceState next = state_with(first, second, position);
    next.alphas = state.alphas;
    state = std::move(next);
    adaptive.follow(state, 10);
    return state.alphas;
  };
  EXPECT_EQ(see(2.5, 2, 1024), (std::vector<float>{8, 10}));
  EXPECT_EQ(see(2.5, 2, 1025), (std::vector<float>{8, 10})) << "not where 512 tokens are full";
  EXPECT_EQ(see(1.75, -3.5, 1536), (std::vector<float>{8, 10})) << "between the limits";
  EXPECT_EQ(see(0.5, 0, 2048), (std::vector<float>{10, 10}));
  for (int64_t i = 5; i < 40; ++i) see(100, 2, i * 512);
  EXPECT_EQ(state.alphas, (std::vector<float>{1, 10}));
  for (int64_t i = 40; i < 80; ++i) see(1, 2, i * 512);
  EXPECT_EQ(state.alphas, (std::vector<float>{10, 10}));
}

// A model with a head that grows, put under SANE at run time.
struct GrowingHead {
  fs::path path;
  Rwkv7 model;
  ByteTokenizer tokenizer;
  test::AlternatingSource source;
  mutable ThreadPool threads{2};

  explicit GrowingHead(const fs::path& folder, std::optional<double> alpha = 10)
      : path(written(folder)), model(Rwkv7Checkpoint(path), {.sane = {.alpha = alpha}}) {}
  static fs::path written(const fs::path& folder) {
    const fs::path path = folder / "growing.safetensors";
    test::write_stress_model(path, 2, {{1, 2, false, 0.004}});
    return path;
  }

  void read(int64_t tokens, const fs::path& folder, OnExisting existing = OnExisting::refuse) {
    StreamSettings settings;
    settings.tokens = tokens, settings.segment = 1024, settings.checkpoint_every = 1024;
    settings.adaptive = true;
    settings.probe_at = {last_question}, settings.probe_problems = 1;
    const StreamParts parts{
        model, "growing", source, tokenizer, {threads}, [&](const SequenceState& state, int64_t) {
          alphas = state.alphas;
          return ProbeOutcome{1, 1};
        }};
    run_stream(parts, settings, folder, existing, [](const StreamProgress&) {});
  }
  int64_t last_question = 16384;
  std::vector<float> alphas;  // when it was asked
};

TEST(AdaptiveSane, HoldsTheGrowingHeadOfAStreamAndLeavesTheRestAlone) {
  const test::Scratch scratch;
  GrowingHead growing(scratch.path());
  growing.read(16384, scratch.path() / "run");
  ASSERT_EQ(growing.alphas.size(), 8u);
  for (size_t head = 0; head < 8; ++head) {
    if (head == 4 + 2)
      EXPECT_LT(growing.alphas[head], 5);
    else
      EXPECT_EQ(growing.alphas[head], 10);
  }
  const auto heads = probe::read_records(scratch.path() / "run" / heads_file);
  const auto last = size_t(heads.rows) - 8;
  const double whole = double(float(10 * std::log(2.0) + 1));
  EXPECT_EQ(heads.reals("tau_mean")[last], whole);
  EXPECT_LT(heads.reals("tau_mean")[last + 6], whole / 1.5);
  EXPECT_NE(heads.setting("sane_adaptive").find("every 512 tokens"), std::string::npos);
}

TEST(AdaptiveSane, IsFollowedInsideALongReading) {
  const test::Scratch scratch;
  const GrowingHead growing(scratch.path());
  constexpr int64_t count = 12 * AdaptiveSane::every + 100;
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i <= count; ++i) tokens.push_back(int32_t('a' + i % 2));
  SequenceState whole = growing.model.fresh_state(), parts = growing.model.fresh_state();
  AdaptiveSane of_whole, of_parts;
  std::vector<double> losses(count), losses_of_parts(count);
  const auto read = [&](SequenceState& state, std::vector<double>& costs, int64_t some,
                        AdaptiveSane* adaptive) {
    const auto from = size_t(state.position), length = size_t(some);
    growing.model.forward(test::scored(std::span(tokens).subspan(from, length),
                                       std::span(tokens).subspan(from + 1, length), state,
                                       std::span(costs).subspan(from, length), nullptr, adaptive),
                          {growing.threads});
  };
  read(whole, losses, count, &of_whole);
  while (parts.position < count) {
    const int64_t next = AdaptiveSane::until_next(parts.position);
    read(parts, losses_of_parts, std::min(count - parts.position, next), nullptr);
    of_parts.follow(parts, growing.model.sane().alpha);
  }
  EXPECT_EQ(whole.alphas, parts.alphas);
  EXPECT_EQ(of_whole.references, of_parts.references);
  EXPECT_EQ(losses, losses_of_parts);
  ASSERT_EQ(whole.alphas.size(), 8u);
  EXPECT_LT(whole.alphas[6], 10) << "no head grew";
}

TEST(AdaptiveSane, IsTheSameAfterAResume) {
  const test::Scratch scratch;
  GrowingHead whole(scratch.path()), parts(scratch.path());
  whole.last_question = parts.last_question = 8192;
  whole.read(8192, scratch.path() / "whole");
  const auto heads = [&](const char* run) { return read_file(scratch.path() / run / heads_file); };
  for (const int64_t tokens : {3072, 6144, 8192})
    parts.read(tokens, scratch.path() / "parts", OnExisting::resume);
  EXPECT_EQ(heads("parts"), heads("whole"));
  EXPECT_EQ(parts.alphas, whole.alphas);
  EXPECT_LT(parts.alphas[6], 10);
}

TEST(AdaptiveSane, NeedsSane) {
  const test::Scratch scratch;
  GrowingHead growing(scratch.path(), std::nullopt);
  EXPECT_FAULT(growing.read(1024, scratch.path() / "run"), Fault::usage,
               "adaptive SANE: expected a model with SANE, trained or put on it, found none");
}

}  // namespace
}  // namespace deltasane
