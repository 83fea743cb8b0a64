#include "model/language_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/fixture_forward.h"
#include "support/errors.h"

namespace deltasane {
namespace {

StateLayout one_head_and_a_cache() {
  StateLayout layout;
  layout.add("memory", StateKind::memory, 0, {2, 3, 4});
  layout.add("keys", StateKind::cache, 1, {5});
  return layout;
}

// Counts the sequences that pass the checks, and computes nothing.
class CheckingModel : public LanguageModel {
 public:
  CheckingModel()
      : LanguageModel({"checking", "Checking", 2, 6, 10, 0, 0, {}}, one_head_and_a_cache(), {},
                      {}) {}
  const ModelCheckpoint& checkpoint() const override { fail(Fault::argument, "no checkpoint"); }
  std::string weight_type() const override { return "none"; }
  uint64_t weight_bytes() const override { return 0; }
  uint64_t read_bytes() const override { return 0; }
  int64_t prefill_chunk() const override { return 16; }

  mutable size_t sequences = 0, calls = 0;

 protected:
  void run(std::span<const SequenceInput> batch, const kernel::Cpu&) const override {
    ++calls, sequences += batch.size();
    for (const SequenceInput& one : batch) one.state->position += int64_t(one.tokens.size());
  }
};

struct LanguageModelTest : testing::Test {
  CheckingModel model;
  ThreadPool threads{1};
  kernel::Cpu cpu{threads};
  SequenceState state = model.fresh_state(), second = model.fresh_state();
  std::vector<int32_t> tokens{0, 9, 3};
  Tensor<float> logits{{3, 10}};

  SequenceInput input(Want want) { return {tokens, &state, want}; }
};

TEST_F(LanguageModelTest, RunsWhatIsWhole) {
  model.forward(std::span<const SequenceInput>(), cpu);
  EXPECT_EQ(model.calls, 0u);
  SequenceInput all = input(Want::all_logits);
  all.logits = logits.view();
  const SequenceInput batch[] = {all, {tokens, &second}};
  model.forward(batch, cpu);
  EXPECT_EQ(model.calls, 1u);
  EXPECT_EQ(model.sequences, 2u);
  EXPECT_EQ(second.position, 3);
  // A layout of its own that is the same will do.
  SequenceState twin(std::make_shared<const StateLayout>(one_head_and_a_cache()));
  model.forward({tokens, &twin}, cpu);
  EXPECT_EQ(twin.position, 3);
  EXPECT_EQ(model.allocate_logits(4).shape(), (Shape{4, 10}));
}

TEST_F(LanguageModelTest, RefusesStatesOfOthers) {
  SequenceState other(test::uniform_layout(2, 6, 2, 3));
  EXPECT_FAULT(model.forward({tokens, &other}, cpu), Fault::argument,
               "state: expected that of this model, found another: expected memory of layer 0 "
               "(2, 3, 4), found time mix shift of layer 0 (6)");
  state.alphas = {3, 3, 3};
  EXPECT_FAULT(model.forward(input(Want::nothing), cpu), Fault::argument,
               "state: expected an alpha for each of 2 heads or none, found 3");
  state.alphas = {3, 3};
  model.forward(input(Want::nothing), cpu);
  EXPECT_EQ(model.calls, 1u);
  EXPECT_DEATH(model.forward({tokens, nullptr}, cpu), "a sequence has a state");
}

TEST_F(LanguageModelTest, RefusesAStateThatIsThereTwice) {
  const SequenceInput batch[] = {{tokens, &state}, {tokens, &second}, {tokens, &state}};
  EXPECT_DEATH(model.forward(batch, cpu), "each sequence has its own state");
  model.forward(std::span(batch).first(2), cpu);
  EXPECT_EQ(model.sequences, 2u);
}

TEST_F(LanguageModelTest, RefusesIdsOutsideOfTheVocabulary) {
  for (const int32_t wrong : {-1, 10, std::numeric_limits<int32_t>::max()}) {
    tokens[2] = wrong;
    EXPECT_FAULT(model.forward(input(Want::nothing), cpu), Fault::argument,
                 cat("token: expected 0 to 9, found ", wrong));
    // A batch is refused as a whole.
    const std::vector<int32_t> good{1};
    const SequenceInput batch[] = {{good, &second}, input(Want::nothing)};
    EXPECT_FAULT(model.forward(batch, cpu), Fault::argument, "token");
    tokens[2] = 3;
    std::vector<double> losses(3);
    const std::vector<int32_t> targets{1, wrong, 2};
    EXPECT_FAULT(score(model, tokens, targets, state, losses, cpu), Fault::argument,
                 cat("token: expected 0 to 9, found ", wrong));
  }
  EXPECT_EQ(model.calls, 0u);
  EXPECT_EQ(second.position, 0);
}

TEST_F(LanguageModelTest, RefusesResultsThatHaveNoRoom) {
  SequenceInput one = input(Want::last_logits);
  EXPECT_FAULT(model.forward(one, cpu), Fault::argument, "logits: expected shape (1, 10)");
  one.logits = logits.view();
  EXPECT_FAULT(model.forward(one, cpu), Fault::argument,
               "logits: expected shape (1, 10), found (3, 10)");
  one = input(Want::all_logits);
  one.logits = logits.view().slice(0, 0, 2);
  EXPECT_FAULT(model.forward(one, cpu), Fault::argument,
               "logits: expected shape (3, 10), found (2, 10)");
  std::vector<double> losses(2);
  EXPECT_DEATH(score(model, tokens, tokens, state, losses, cpu), "a target and a loss");
  std::vector<TokenLogProbability> top(5);
  one = input(Want::top_log_probabilities);
  one.top = top, one.top_count = 2;
  EXPECT_DEATH(model.forward(one, cpu), "room for the likeliest");
  one.top_count = 11, one.top = {};
  EXPECT_DEATH(model.forward(one, cpu), "room for the likeliest");
  one = input(Want::sample);
  EXPECT_DEATH(model.forward(one, cpu), "a sampler draws after a token");
  EXPECT_EQ(model.calls, 0u);
}

TEST(LogProbability, IsLogSoftmax) {
  const float logits[] = {1, 2, 3};
  double sum = 0;
  for (int32_t i = 0; i < 3; ++i) sum += std::exp(log_probability(logits, i));
  EXPECT_NEAR(sum, 1, 1e-15 * 3);
  EXPECT_NEAR(log_probability(logits, 2) - log_probability(logits, 0), 2, 1e-12);
  // Each exponential in float would be off by 6e-8 of itself.
  const std::vector<float> many{0.1f, 0.3f, 0.7f, -1.1f};
  double terms = 0;
  for (const float one : many) terms += std::exp(double(one));
  EXPECT_NEAR(log_probability(many, 0), double(0.1f) - std::log(terms), 1e-15);
}

TEST(LogProbability, TheLikeliestComeFirstAndTheLowestIdOfEqualOnes) {
  constexpr float banned = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits{1, 5, banned, 5, -2, 1};
  const int32_t order[] = {1, 3, 0, 5, 4};
  for (const size_t count : {1u, 3u, 5u, 6u}) {
    std::vector<TokenLogProbability> top(count);
    take_top(logits, top);
    for (size_t i = 0; i < std::min<size_t>(count, 5); ++i) {
      EXPECT_EQ(top[i].token, order[i]);
      EXPECT_EQ(top[i].log_probability, log_probability(logits, order[i]));
    }
    if (count == 6) {
      EXPECT_EQ(top[5].token, -1);
      EXPECT_EQ(top[5].log_probability, -std::numeric_limits<double>::infinity());
    }
  }
}

}  // namespace
}  // namespace deltasane
