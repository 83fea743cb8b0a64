// Batches of prompts and single tokens that want different things, against each sequence alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "model/fixture_forward.h"
#include "model/registry.h"
#include "model/rwkv7/checkpoint/write.h"
#include "model/rwkv7/fixture_shape.h"
#include "model/rwkv7/random.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

constexpr int64_t batch_vocabulary = 61, top_count = 4;

// One sequence of a batch with memory for all that it may want.
struct Wanted {
  std::vector<int32_t> tokens, targets;
  SequenceState state;
  Want want;
  Tensor<float> logits;
  std::vector<double> losses;
  std::vector<TokenLogProbability> top;
  Sampler sampler{SamplerSettings{.temperature = 1.1, .top_p = 0.9, .seed = 3}};
  kernel::SampledToken sampled;

  Wanted(const SequenceState& from, std::vector<int32_t> read, Want what)
      : tokens(std::move(read)),
        targets(tokens.rbegin(), tokens.rend()),
        state(from.clone()),
        want(what),
        losses(tokens.size(), NAN),
        top(tokens.size() * top_count) {
    const auto rows = int64_t(want == Want::all_logits ? tokens.size() : 1);
    logits = Tensor<float>({rows, batch_vocabulary});
    logits.fill(NAN);
    sampled.token = -7;
  }
  Wanted clone() const { return Wanted(state, tokens, want); }

  SequenceInput input() {
    SequenceInput input{tokens, &state, want};
    if (want == Want::last_logits || want == Want::all_logits) input.logits = logits.view();
    input.targets = targets, input.losses = losses;
    input.top = top, input.top_count = top_count;
    input.sampler = &sampler, input.sampled = &sampled;
    return input;
  }
};

void expect_same_results(const Wanted& found, const Wanted& expected) {
  const auto same = [](std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  };
  EXPECT_TRUE(same(found.state.fixed(), expected.state.fixed()));
  EXPECT_EQ(found.state.position, expected.state.position);
  EXPECT_TRUE(same(found.logits.span(), expected.logits.span()));
  EXPECT_EQ(std::memcmp(found.losses.data(), expected.losses.data(), found.losses.size() * 8), 0);
  for (size_t i = 0; i < found.top.size(); ++i) {
    EXPECT_EQ(found.top[i].token, expected.top[i].token);
    EXPECT_EQ(found.top[i].log_probability, expected.top[i].log_probability);
  }
  EXPECT_EQ(found.sampled.token, expected.sampled.token);
  EXPECT_EQ(found.sampled.broken, expected.sampled.broken);
  EXPECT_EQ(found.sampler.state(), expected.sampler.state());
}

constexpr Want every_want[] = {Want::nothing, Want::last_logits,           Want::all_logits,
                               Want::losses,  Want::top_log_probabilities, Want::sample};

struct MixedBatch : testing::TestWithParam<kernel::WeightType> {
  test::Scratch scratch;
  ThreadPool threads{1};
  Random random{9};
  std::unique_ptr<LanguageModel> model = open(SaneKind::run_time);

  std::unique_ptr<LanguageModel> open(SaneKind sane) const {
    Rwkv7Shape shape = test::small_rwkv7(batch_vocabulary);
    shape.sane = sane == SaneKind::trained;
    Metadata metadata;
    if (shape.sane) metadata = {{"sane.alpha", "3"}, {"sane.chunk", "16"}};
    const fs::path path = scratch.path() / cat(name_of(sane), ".safetensors");
    write_rwkv7_safetensors(path, RandomRwkv7(shape, 1), StoredType::f32, metadata);
    OpenOptions options;
    options.weights = GetParam();
    if (!shape.sane) options.sane.alpha = 0.5;
    return open_model(path, options);
  }
  std::vector<int32_t> some(int64_t count) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(int32_t(random.below(uint64_t(batch_vocabulary))));
    return tokens;
  }
  // A sequence that has read some tokens, each another number.
  Wanted sequence(int64_t tokens, Want want) {
    SequenceState state = model->fresh_state();
    test::read(*model, some(++started_ * 5 % 23), state, {threads});
    return Wanted(state, some(tokens), want);
  }
  void run(std::vector<Wanted>& batch) {
    std::vector<SequenceInput> inputs;
    for (Wanted& one : batch) inputs.push_back(one.input());
    model->forward(inputs, {threads});
  }
  Wanted alone(const Wanted& one) {
    Wanted copy = one.clone();
    model->forward(copy.input(), {threads});
    return copy;
  }
  void expect_prompts_as_if_alone();
  void expect_singles_as_among_others(int64_t count);

 private:
  int64_t started_ = 0;
};

TEST_P(MixedBatch, PromptsAreComputedAsIfAlone) {
  for (const SaneKind sane : {SaneKind::run_time, SaneKind::trained}) {
    model = open(sane);
    expect_prompts_as_if_alone();
  }
}

void MixedBatch::expect_prompts_as_if_alone() {
  std::vector<Wanted> batch, expected;
  for (const int64_t tokens : {2, 33})
    for (const Want want : every_want) batch.push_back(sequence(tokens, want));
  for (const Want want : {Want::last_logits, Want::losses})  // in several blocks
    batch.push_back(sequence(530, want));
  // Single tokens too, where losses or the likeliest tokens are wanted.
  for (const Want want : {Want::losses, Want::top_log_probabilities})
    batch.push_back(sequence(1, want));
  for (const Wanted& one : batch) expected.push_back(alone(one));
  const size_t prompts = batch.size();
  for (const Want want : {Want::nothing, Want::last_logits, Want::all_logits, Want::sample})
    batch.insert(batch.begin() + int64_t(batch.size()) / 2, sequence(1, want));
  run(batch);
  size_t next = 0;
  for (const Wanted& one : batch) {
    const bool is_prompt = one.tokens.size() > 1 || one.want == Want::losses ||
                           one.want == Want::top_log_probabilities;
    if (!is_prompt) continue;
    SCOPED_TRACE(cat(one.tokens.size(), " tokens, want ", int(one.want)));
    expect_same_results(one, expected[next++]);
  }
  EXPECT_EQ(next, prompts);
}

// A single token among few or among many has the bits that it has among any others as few or many.
TEST_P(MixedBatch, SingleTokensDependOnTheirNumberAlone) {
  for (const SaneKind sane : {SaneKind::run_time, SaneKind::trained}) {
    model = open(sane);
    for (const int64_t count : {1, 2, 7, 12, 13}) expect_singles_as_among_others(count);
  }
}

void MixedBatch::expect_singles_as_among_others(int64_t count) {
  SCOPED_TRACE(cat(count, " single tokens"));
  std::vector<Wanted> singles, batch;
  for (int64_t i = 0; i < count; ++i) {
    constexpr Want wants[] = {Want::sample, Want::nothing, Want::last_logits, Want::all_logits};
    singles.push_back(sequence(1, wants[i % 4]));
  }
  for (const Wanted& one : singles) batch.push_back(one.clone());
  for (const Want want : every_want)
    batch.insert(batch.begin() + int64_t(want) % count, sequence(20, want));
  run(batch);
  // In reverse, and with others beside them as long as that changes neither few nor many.
  std::vector<Wanted> others;
  for (auto one = singles.rbegin(); one != singles.rend(); ++one) others.push_back(one->clone());
  if (count > 1 && count != 12)
    for (int i = 0; i < 5; ++i) others.push_back(sequence(1, Want::last_logits));
  run(others);
  size_t number = 0;
  for (const Wanted& one : batch) {
    if (one.tokens.size() > 1) continue;
    SCOPED_TRACE(cat("number ", number));
    expect_same_results(one, others[size_t(count) - 1 - number]);
    if (count == 1) expect_same_results(one, alone(singles[number]));
    ++number;
  }
  EXPECT_EQ(number, size_t(count));
}

TEST_P(MixedBatch, ResultsAreThoseOfTheLogits) {
  const Wanted with_logits = sequence(300, Want::all_logits), read = alone(with_logits);
  const auto row = [&](int64_t t) {
    return std::span<const float>(read.logits.view().at(t), size_t(batch_vocabulary));
  };
  const auto like = [&](Want want) {
    return alone(Wanted(with_logits.state, with_logits.tokens, want));
  };
  const Wanted losses = like(Want::losses), top = like(Want::top_log_probabilities),
               last = like(Want::last_logits), sampled = like(Want::sample);
  for (int64_t t = 0; t < 300; ++t) {
    SCOPED_TRACE(cat("token ", t));
    EXPECT_EQ(losses.losses[size_t(t)], -log_probability(row(t), losses.targets[size_t(t)]));
    double before = 0;
    for (int64_t i = 0; i < top_count; ++i) {
      const TokenLogProbability& one = top.top[size_t(t * top_count + i)];
      EXPECT_EQ(one.log_probability, log_probability(row(t), one.token));
      EXPECT_LE(one.log_probability, before);
      before = one.log_probability;
    }
    int64_t likelier = 0;
    for (int32_t token = 0; token < batch_vocabulary; ++token)
      likelier += log_probability(row(t), token) > before;
    EXPECT_EQ(likelier, top_count - 1);
  }
  for (const Wanted* const one : {&losses, &top, &last, &sampled})
    EXPECT_TRUE(std::ranges::equal(one->state.fixed(), read.state.fixed()));
  Sampler by_hand = with_logits.sampler;
  EXPECT_EQ(sampled.sampled.token, by_hand.next(last.logits.span()));
  EXPECT_EQ(sampled.sampler.state(), by_hand.state());
}

TEST_P(MixedBatch, ABrokenSequenceLeavesTheOthersAlone) {
  std::vector<Wanted> batch, whole;
  for (int i = 0; i < 4; ++i) batch.push_back(sequence(i < 2 ? 1 : 20, Want::sample));
  for (const Wanted& one : batch) whole.push_back(one.clone());
  for (const size_t i : {0, 2}) std::ranges::fill(test::mutable_memories(batch[i].state), NAN);
  run(batch), run(whole);
  for (const size_t i : {1, 3}) expect_same_results(batch[i], whole[i]);
  for (const size_t i : {0, 2}) {
    EXPECT_GE(batch[i].sampled.broken, 0);
    EXPECT_TRUE(std::isnan(batch[i].sampled.value));
    EXPECT_EQ(batch[i].sampler.state(), whole[i].clone().sampler.state());
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, MixedBatch,
                         testing::Values(kernel::WeightType::f32, kernel::WeightType::bf16,
                                         kernel::WeightType::q8),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace deltasane
