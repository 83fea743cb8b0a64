// One sequence on a GPU.
#include "model/rwkv7/gpu/fixture_model.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/errors.h"

namespace deltasane {
namespace {

using test::HeldRwkv7;
using test::Numbers;
using test::of_width;
using test::Outcome;
using test::Rwkv7OnGpuTest;
using test::Sane;
using test::some_tokens;

// Four models are judged together: over one, the yardstick may be lucky.
TEST_P(Rwkv7OnGpuTest, IsTheDefinitionHoweverItIsCut) {
  const auto tokens = some_tokens(83);
  const std::vector<int64_t> ones(83, 1);
  const std::vector<std::vector<int64_t>> cuts{{83}, {7, 76}, {16, 33, 1, 33}, {1, 15, 67}, ones};
  std::vector<PooledCloseness> logits(cuts.size()), memory(cuts.size());
  for (const uint64_t seed : {1, 2, 3, 4}) {
    const HeldRwkv7 source = model_of(seed);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), tokens);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), tokens);
    const Rwkv7 model = open({0}, kernel::WeightType::f32, seed);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const Outcome found = run(model, tokens, cuts[i]);
      logits[i].add(found.logits.span(), plain.logits, truth.logits);
      memory[i].add(test::memories(found.state), plain.memory, truth.memory);
    }
  }
  for (size_t i = 0; i < cuts.size(); ++i) {
    SCOPED_TRACE(cat("in ", cuts[i].size(), " parts, the first of ", cuts[i][0]));
    const Closeness of_logits = logits[i].result(Criterion::rms_error);
    const Closeness of_memory = memory[i].result(Criterion::rms_error);
    EXPECT_TRUE(of_logits.close) << "logits " << of_logits.explanation();
    EXPECT_TRUE(of_memory.close) << "memory " << of_memory.explanation();
  }
}

TEST_P(Rwkv7OnGpuTest, IsNearTheDefinitionIn16Bits) {
  const auto tokens = some_tokens(83);
  const Rwkv7 model = on_gpu(kernel::WeightType::bf16);
  const std::vector<int64_t> ones(83, 1);
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{83}, {16, 33, 1, 33}, ones})
    expect_near_the_definition(run(model, tokens, lengths), tokens);
}

TEST_P(Rwkv7OnGpuTest, SingleTokensAreTheDefinitionEveryTimeAndOfEveryWidth) {
  const auto tokens = some_tokens(18);  // a chunk ends
  const std::vector<int64_t> ones(18, 1);
  // Fewer channels than a GPU has multiprocessors; rows of several pieces of weights, and several
  // rows for each warp of a GPU.
  for (const Rwkv7Shape& shape : {of_width(64, 100, 61, 40), of_width(1088, 2300, 2500, 400)})
    for (const auto weights : {kernel::WeightType::f32, kernel::WeightType::bf16}) {
      SCOPED_TRACE(cat(shape.channels, " channels, ", name_of(weights)));
      take(shape);
      const Rwkv7 model = on_gpu(weights);
      const Outcome found = run(model, tokens, ones), again = run(model, tokens, ones);
      if (weights == kernel::WeightType::f32)
        expect_the_definition(found, tokens);
      else
        expect_near_the_definition(found, tokens);
      EXPECT_TRUE(std::ranges::equal(found.logits.span(), again.logits.span()));
      EXPECT_TRUE(std::ranges::equal(test::memories(found.state), test::memories(again.state)));
      EXPECT_TRUE(std::ranges::equal(test::shifts(found.state), test::shifts(again.state)));
    }
}

TEST_P(Rwkv7OnGpuTest, LogitsAreTheSameWhereverTheyGo) {
  const auto tokens = some_tokens(2);
  const Rwkv7 model = on_gpu();
  const auto logits_in = [&](Tensor<float> room) {
    SequenceState state = model.fresh_state();
    for (const int32_t token : tokens)
      test::read_last(model, {&token, 1}, state, room.view(), {threads_});
    return room;
  };
  const Tensor<float> pinned = logits_in(model.allocate_logits(1));
  const Tensor<float> other = logits_in(Tensor<float>({1, shape_.vocabulary}));
  EXPECT_TRUE(is_pinned(pinned.data()));
  EXPECT_FALSE(is_pinned(other.data()));
  EXPECT_TRUE(std::ranges::equal(pinned.span(), other.span()));
}

TEST_P(Rwkv7OnGpuTest, BlocksInTwoQueuesAreOneReading) {
  const auto tokens = some_tokens(3 * 4096 + 77);
  const Rwkv7 model = on_gpu();
  SequenceState whole = model.fresh_state(), parts = model.fresh_state();
  TauRecord taus(*model.state_layout()), taus_of_parts = taus;
  Tensor<float> a({1, shape_.vocabulary}), b({1, shape_.vocabulary});
  test::read_last(model, tokens, whole, a.view(), {threads_}, &taus);
  for (size_t from = 0; from < tokens.size(); from += 4096)
    test::read_last(model,
                    std::span(tokens).subspan(from, std::min<size_t>(4096, tokens.size() - from)),
                    parts, b.view(), {threads_}, &taus_of_parts);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.span().size_bytes()), 0);
  EXPECT_EQ(std::memcmp(test::memories(whole).data(), test::memories(parts).data(),
                        test::memories(whole).size_bytes()),
            0);
  const int64_t chunks = GetParam() == Sane::none ? 0 : int64_t(tokens.size()) / 16;
  for (size_t head = 0; head < model.state_layout()->heads().size(); ++head) {
    EXPECT_EQ(taus[head].count, chunks);
    EXPECT_EQ(taus[head].sum, taus_of_parts[head].sum);
    EXPECT_EQ(taus[head].last, taus_of_parts[head].last);
  }
}

TEST_P(Rwkv7OnGpuTest, TakesTheAlphasOfAState) {
  const auto tokens = some_tokens(16);  // tau shows in the state when they are read
  const Rwkv7 model = on_gpu();
  const auto heads = size_t(shape_.layers * shape_.heads);
  const auto read = [&](const std::vector<float>& alphas, TauRecord& taus) {
    SequenceState state = model.fresh_state();
    state.alphas = alphas;
    test::read(model, tokens, state, {threads_}, &taus);
    return Numbers(test::memories(state).begin(), test::memories(state).end());
  };
  TauRecord usual(*model.state_layout()), same = usual, twice = usual, again = usual;
  const Numbers without = read({}, usual);
  const auto alpha = float(strength().alpha);
  EXPECT_EQ(read(std::vector<float>(heads, alpha), same), without);
  std::vector<float> alphas(heads, alpha);
  alphas.back() *= 2;
  const Numbers with = read(alphas, twice);
  EXPECT_EQ(read({}, again), without) << "the alphas of another state have been kept";
  if (GetParam() == Sane::none) return;
  EXPECT_NE(with, without);
  const auto last = [&](const TauRecord& taus, int64_t head) {
    return taus[size_t((shape_.layers - 1) * shape_.heads + head)].last;
  };
  EXPECT_EQ(last(twice, 0), last(usual, 0));
  const float own = last(twice, shape_.heads - 1), others = last(usual, shape_.heads - 1);
  EXPECT_NEAR(own - 1, 2 * (others - 1), 4 * 0x1p-23 * own);  // each is rounded once
}

TEST_P(Rwkv7OnGpuTest, TellsTheLossesThatItsLogitsHave) {
  const auto tokens = some_tokens(301);
  const Rwkv7 model = on_gpu();
  const auto read = std::span(tokens).first(300), next = std::span(tokens).last(300);
  const int64_t all[] = {300};
  const Outcome with_logits = run(model, read, all);
  SequenceState state = model.fresh_state();
  std::vector<double> losses(300, NAN);
  TauRecord taus(*model.state_layout());
  const double sum = score(model, read, next, state, losses, {threads_}, &taus);
  double expected = 0;
  for (int64_t t = 0; t < 300; ++t) {
    const double loss = -log_probability(
        {with_logits.logits.data() + t * shape_.vocabulary, size_t(shape_.vocabulary)},
        next[size_t(t)]);
    // Both sum 61 floats: each term is off by a few units in the last place.
    EXPECT_NEAR(losses[size_t(t)], loss, 64 * 0x1p-23 * std::max(1.0, loss));
    expected += loss;
  }
  EXPECT_NEAR(sum, expected, 300 * 64 * 0x1p-23 * 10);
  EXPECT_EQ(taus[0].count, GetParam() == Sane::none ? 0 : 18);
}

TEST_P(Rwkv7OnGpuTest, TellsTheNormsOfHeads) {
  const auto tokens = some_tokens(40);
  const Rwkv7 model = on_gpu();
  SequenceState state = model.fresh_state();
  test::read(model, tokens, state, {threads_});
  const auto norms = state.head_norms_on_device();
  ASSERT_TRUE(norms);
  const auto size = size_t(shape_.head_size * shape_.head_size);
  ASSERT_EQ(norms->size(), size_t(shape_.layers * shape_.heads));
  for (size_t head = 0; head < norms->size(); ++head) {
    double squares = 0;
    for (const float entry : test::memories(state).subspan(head * size, size))
      squares += double(entry) * double(entry);
    // Two sums of 4096 terms that are not negative, each with a rounding per term.
    EXPECT_NEAR((*norms)[head], std::sqrt(squares), double(size) * 0x1p-52 * std::sqrt(squares));
    EXPECT_GT(squares, 0);
  }
}

TEST_P(Rwkv7OnGpuTest, StatesGoBetweenDevices) {
  const auto tokens = some_tokens(60);
  const Rwkv7 gpu = on_gpu(), cpu = open({}, kernel::WeightType::f32);
  SequenceState state = gpu.fresh_state();
  Tensor<float> logits({60, shape_.vocabulary});
  const auto read = [&](const Rwkv7& model, int64_t from, int64_t count) {
    test::read_all(model, std::span(tokens).subspan(size_t(from), size_t(count)), state,
                   logits.view().slice(0, from, count), {threads_});
  };
  read(gpu, 0, 10), read(cpu, 10, 7), read(gpu, 17, 23);
  state = state.clone();
  read(gpu, 40, 1), read(cpu, 41, 1), read(gpu, 42, 18);
  expect_the_definition({std::move(logits), std::move(state)}, tokens);
}

TEST(Rwkv7OnGpuRefusals, NeedNoGpu) {
  const test::Scratch scratch;
  OpenOptions options;
  options.device = {0};
  const auto open = [&](Rwkv7Shape shape, const Metadata& metadata) {
    const fs::path path = scratch.path() / "model.safetensors";
    shape.sane = !metadata.empty();
    write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, metadata);
    return Rwkv7(Rwkv7Checkpoint(path), options);
  };
  EXPECT_FAULT(open(test::small_rwkv7(61), {}), Fault::device,
               "a model on a GPU: expected heads of 64 channels, found 32; use the device cpu");
  EXPECT_FAULT(
      open(test::small, {{"sane.alpha", "3"}, {"sane.chunk", "8"}}), Fault::device,
      "SANE on a GPU: expected a chunk that is a multiple of 16, found 8; use the device cpu");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Rwkv7OnGpuTest,
                         testing::Values(Sane::none, Sane::run_time, Sane::trained),
                         test::name_of_sane);

}  // namespace
}  // namespace deltasane
