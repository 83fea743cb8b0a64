#include "serve/state/prefix_tree.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "serve/fixture_service.h"

namespace deltasane::serve {
namespace {

constexpr int64_t tile = 16;

struct PrefixTreeTest : testing::Test {
  std::shared_ptr<const StateLayout> layout =
      open_model(fs::path(DELTASANE_SOURCE) / "models/arithmetic-sane-3.safetensors", {})
          ->state_layout();
  std::vector<int32_t> tokens(int64_t count, uint64_t seed = 1) const {
    Random random(seed);
    std::vector<int32_t> made;
    for (int64_t i = 0; i < count; ++i) made.push_back(int32_t(random.below(3)));
    return made;
  }
  // Reads a prompt as a scheduler does; how much of it was cached.
  int64_t read(PrefixTree& tree, const std::string& owner, const std::vector<int32_t>& prompt) {
    const PrefixTree::Plan plan = tree.plan(owner, prompt);
    EXPECT_EQ(plan.cached, plan.state ? plan.state->position : 0);
    int64_t before = plan.cached;
    for (const int64_t place : plan.keep_after) {
      EXPECT_GT(place, before);
      EXPECT_EQ(place % tile, 0);
      EXPECT_GE(int64_t(prompt.size()) - place, 13);
      before = place;
      SequenceState state(layout);
      state.position = place;
      tree.keep(owner, std::span(prompt).first(size_t(place)), std::move(state));
    }
    return plan.cached;
  }
};

TEST_F(PrefixTreeTest, FindsTheLongestPromptThatWasRead) {
  PrefixTree tree(uint64_t{1} << 40, tile);
  std::vector<int32_t> prompt = tokens(200);
  EXPECT_EQ(read(tree, "a", prompt), 0);
  EXPECT_EQ(read(tree, "a", prompt), 176);
  EXPECT_EQ(read(tree, "b", prompt), 0);  // another owner's
  std::vector<int32_t> longer = prompt;
  for (const int32_t token : tokens(100, 2)) longer.push_back(token);
  EXPECT_EQ(read(tree, "a", longer), 176);
  EXPECT_EQ(read(tree, "a", longer), 272);
  EXPECT_EQ(read(tree, "a", std::vector<int32_t>(prompt.begin(), prompt.begin() + 190)), 176);
  EXPECT_EQ(read(tree, "a", std::vector<int32_t>(prompt.begin(), prompt.begin() + 188)), 0);
  EXPECT_EQ(read(tree, "a", std::vector<int32_t>(prompt.begin(), prompt.begin() + 63)), 0);
}

// The third of several prompts with one beginning profits, wherever they part.
TEST_F(PrefixTreeTest, KeepsAStateWherePromptsParted) {
  PrefixTree tree(uint64_t{1} << 40, tile);
  const auto prompt = [&](int32_t number) {
    std::vector<int32_t> made = tokens(150);
    made.push_back(10 + number);
    for (const int32_t token : tokens(150, uint64_t(number))) made.push_back(token);
    return made;
  };
  EXPECT_EQ(read(tree, "a", prompt(1)), 0);
  EXPECT_EQ(read(tree, "a", prompt(2)), 0);
  EXPECT_EQ(read(tree, "a", prompt(3)), 144);
  EXPECT_EQ(read(tree, "a", prompt(4)), 144);
  EXPECT_EQ(read(tree, "a", prompt(2)), 288);
}

TEST_F(PrefixTreeTest, ForgetsTheLeastRecentlyUsed) {
  const uint64_t bytes = SequenceState(layout).bytes();
  PrefixTree tree(3 * bytes, tile);
  const auto prompt = [&](int32_t number) { return std::vector<int32_t>(100, number); };
  for (int32_t i = 1; i <= 3; ++i) EXPECT_EQ(read(tree, "a", prompt(i)), 0);
  EXPECT_EQ(read(tree, "a", prompt(1)), 80);
  EXPECT_EQ(read(tree, "a", prompt(4)), 0);
  EXPECT_EQ(tree.states(), 3u);
  EXPECT_EQ(tree.bytes(), 3 * bytes);
  EXPECT_EQ(read(tree, "a", prompt(1)), 80);
  EXPECT_EQ(read(tree, "a", prompt(2)), 0);
  PrefixTree off(0, tile);
  EXPECT_TRUE(off.plan("a", prompt(1)).keep_after.empty());
}

TEST_F(PrefixTreeTest, AgreesWithAListOfPrompts) {
  PrefixTree tree(uint64_t{1} << 40, tile);
  std::vector<std::vector<int32_t>> kept;  // every prefix that has a state
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<int32_t> prompt(64 + random.below(80));
    for (int32_t& token : prompt) token = random.below(40) == 0;
    const PrefixTree::Plan plan = tree.plan("a", prompt);
    size_t longest = 0;
    for (const auto& one : kept)
      if (one.size() + 13 <= prompt.size() &&
          std::equal(one.begin(), one.end(), prompt.begin()))
        longest = std::max(longest, one.size());
    EXPECT_EQ(plan.cached, int64_t(longest));
    read(tree, "a", prompt);
    for (const int64_t place : plan.keep_after)
      kept.emplace_back(prompt.begin(), prompt.begin() + place);
  }
  EXPECT_GT(kept.size(), 100u);
}

// With the whole server: the same bits with a hit and without.
TEST(PrefixReuse, ChangesNoAnswer) {
  ServeSettings without;
  ServeSettings with;
  with.scheduler.prefix_bytes = uint64_t{64} << 20;
  test::ServiceFixture plain(without), cached(with);
  std::string history = "User: 3 + 4\n\nAssistant: 3 + 4 = 7. The answer is 7.\n\n";
  for (int turn = 0; turn < 3; ++turn) {
    history += cat("User: ", turn + 5, " + 9\n\nAssistant:");
    const Json body{{"prompt", history}, {"max_tokens", 24}, {"seed", turn}, {"temperature", 1.3}};
    const Json first = plain.post("/v1/completions", body), second = cached.post("/v1/completions", body),
               third = cached.post("/v1/completions", body);
    EXPECT_EQ(first["choices"], second["choices"]);
    EXPECT_EQ(first["choices"], third["choices"]);
    EXPECT_EQ(first["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    EXPECT_GT(third["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), 40);
    EXPECT_GT(second["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), turn > 0 ? 40 : -1);
    history += " " + std::to_string(turn + 14) + ".\n\n";
  }
}

}  // namespace
}  // namespace deltasane::serve
