// Several sequences on a GPU: side by side, and many of a token each.
#include <gtest/gtest.h>

#include "model/rwkv7/decode/token.h"
#include "model/rwkv7/gpu/fixture_model.h"

namespace deltasane {
namespace {

using test::HeldRwkv7;
using test::Sane;
using test::some_tokens;

struct SequencesOfRwkv7OnGpu : test::Rwkv7OnGpuTest {};

// So many that they are read in two groups, the first one in several blocks, from inside a tile on.
TEST_P(SequencesOfRwkv7OnGpu, SequencesSideBySideAreTheDefinition) {
  constexpr int64_t count = 17, before = 7, time = 300;
  const auto tokens = some_tokens(before + time + count);
  const auto part = [&](int64_t sequence, int64_t from, int64_t some) {
    return std::span(tokens).subspan(size_t(sequence + from), size_t(some));
  };
  const Rwkv7 model = on_gpu();
  std::vector<SequenceState> states;
  std::vector<TauRecord> taus(size_t(count), TauRecord(*model.state_layout()));
  std::vector<std::vector<double>> losses(size_t(count), std::vector<double>(size_t(time), NAN));
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(model.fresh_state());
    test::read(model, part(i, 0, before), states.back(), {threads_});
  }
  std::vector<SequenceInput> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(test::scored(part(i, before, time), part(i, before + 1, time), states[size_t(i)],
                               losses[size_t(i)], &taus[size_t(i)]));
  model.forward(all, {threads_});
  const HeldRwkv7 source = model_of(1);
  for (const int64_t i : {int64_t(0), int64_t(9), count - 1}) {
    SCOPED_TRACE(cat("sequence ", i));
    const auto read = part(i, 0, before + time);
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), read);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), read);
    const Closeness memory =
        closeness(test::memories(states[size_t(i)]), plain.memory, truth.memory);
    EXPECT_TRUE(memory.close) << "memory " << memory.explanation();
    std::vector<float> found, plainly;
    std::vector<double> truly;
    for (int64_t t = 0; t < time; ++t) {
      const size_t row = size_t((before + t) * shape_.vocabulary), wide = size_t(shape_.vocabulary);
      const int32_t target = part(i, before + 1 + t, 1)[0];
      found.push_back(float(losses[size_t(i)][size_t(t)]));
      plainly.push_back(
          float(-log_probability(std::span(plain.logits).subspan(row, wide), target)));
      double sum = 0;
      for (size_t j = 0; j < wide; ++j) sum += std::exp(truth.logits[row + j]);
      truly.push_back(std::log(sum) - truth.logits[row + size_t(target)]);
    }
    const Closeness cost = closeness(found, plainly, truly);
    EXPECT_TRUE(cost.close) << "losses " << cost.explanation();
    EXPECT_EQ(states[size_t(i)].position, before + time);
    EXPECT_EQ(taus[size_t(i)][size_t(2 * shape_.heads + 2)].count,
              GetParam() == Sane::none ? 0 : (before + time) / 16);
  }
}

// One sequence after another ends: numbers of them between those that steps are recorded for.
TEST_P(SequencesOfRwkv7OnGpu, SequencesThatEndLeaveTheOthersAlone) {
  constexpr int64_t most = 37, least = 10;
  const auto tokens = some_tokens(2 * (most - least));
  const Rwkv7 model = on_gpu();
  std::vector<SequenceState> states;
  std::vector<SequenceState*> places;
  for (int64_t i = 0; i < most; ++i) states.push_back(model.fresh_state());
  for (SequenceState& state : states) places.push_back(&state);
  Tensor<float> logits({most, shape_.vocabulary});
  for (size_t step = 0; step < tokens.size(); ++step)
    test::step(model, std::vector<int32_t>(size_t(most) - step / 2, tokens[step]), places,
               logits.view(), {threads_});
  const HeldRwkv7 source = model_of(1);
  for (const int64_t i : {int64_t(0), least, most / 2, most - 1}) {
    const SequenceState& state = states[size_t(i)];
    SCOPED_TRACE(cat("sequence ", i, " after ", state.position, " tokens"));
    const auto read = std::span(tokens).first(size_t(state.position));
    const auto truth = reference::rwkv7<double>(source, shape_, strength(), read);
    const auto plain = reference::rwkv7<float>(source, shape_, strength(), read);
    const Closeness memory = closeness(test::memories(state), plain.memory, truth.memory);
    EXPECT_TRUE(memory.close) << memory.explanation();
  }
}

// Sequences with alphas of their own side by side; then a token of each of many with the same ones,
// between those of many with the model's, whose steps are recorded by then.
TEST_P(SequencesOfRwkv7OnGpu, SequencesKeepTheirOwnAlphas) {
  if (GetParam() == Sane::none) return;
  const auto tokens = some_tokens(80);
  const Rwkv7 model = on_gpu();
  const auto expect_alpha = [&](const SequenceState& state, double alpha) {
    SCOPED_TRACE(cat("alpha ", alpha, " after ", state.position, " tokens"));
    const auto read = std::span(tokens).first(size_t(state.position));
    const HeldRwkv7 source = model_of(1);
    const auto truth = reference::rwkv7<double>(source, shape_, {alpha, 16}, read);
    const auto plain = reference::rwkv7<float>(source, shape_, {alpha, 16}, read);
    const Closeness memory = closeness(test::memories(state), plain.memory, truth.memory);
    EXPECT_TRUE(memory.close) << memory.explanation();
  };
  std::vector<double> losses(32);
  std::vector<SequenceState> states;
  std::vector<SequenceInput> all;
  const std::vector<double> alphas{strength().alpha, 0.25, 2};
  for (size_t i = 0; i < alphas.size(); ++i) states.push_back(model.fresh_state());
  for (size_t i = 1; i < alphas.size(); ++i)
    states[i].alphas.assign(size_t(shape_.layers * shape_.heads), float(alphas[i]));
  for (SequenceState& state : states)
    all.push_back(
        test::scored(std::span(tokens).first(32), std::span(tokens).subspan(1, 32), state, losses));
  model.forward(all, {threads_});
  for (size_t i = 0; i < alphas.size(); ++i) expect_alpha(states[i], alphas[i]);

  Tensor<float> logits({12, shape_.vocabulary});
  const auto twelve = [](const SequenceState& state) {
    std::vector<SequenceState> same;
    for (int64_t i = 0; i < 12; ++i) same.push_back(state.clone());
    return same;
  };
  std::vector<SequenceState> with = twelve(states[1]), without = twelve(states[0]);
  const auto step_to = [&](int64_t end, std::vector<SequenceState>& same) {
    std::vector<SequenceState*> places;
    for (SequenceState& state : same) places.push_back(&state);
    while (same[0].position < end)
      test::step(model, std::vector<int32_t>(12, tokens[size_t(same[0].position)]), places,
                 logits.view(), {threads_});
  };
  step_to(64, without);  // chunks end twice
  step_to(48, with);
  expect_alpha(with[0], alphas[1]), expect_alpha(with[11], alphas[1]);
  step_to(80, without);
  expect_alpha(without[0], alphas[0]), expect_alpha(without[11], alphas[0]);
}

// The kernels of each width and number of sequences, as the compiler made them for this GPU.
TEST(TokenKernelsOfRwkv7, KeepAllInRegisters) {
  if (Gpu::count() == 0) GTEST_SKIP() << "this machine has no GPU";
  for (const int64_t channels : {1024, 2560, 4096})
    for (int count = 1; count <= rwkv7::most_tokens; ++count) {
      SCOPED_TRACE(cat(channels, " channels, ", count, " sequences"));
      rwkv7::LayerSizes sizes{};
      sizes.channels = channels;
      EXPECT_EQ(rwkv7::token_local_bytes<bf16>(sizes, count), 0);
      EXPECT_EQ(rwkv7::token_local_bytes<float>(sizes, count), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SequencesOfRwkv7OnGpu,
                         testing::Values(Sane::none, Sane::run_time, Sane::trained),
                         test::name_of_sane);

}  // namespace
}  // namespace deltasane
