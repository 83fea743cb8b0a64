#include "eval/run/vote.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/io/file.h"

namespace deltasane::eval {
namespace {

using answers::Verdict;

Vote voted(const std::string& gold, const std::vector<std::string>& texts) {
  return vote(gold, texts, {});
}

TEST(Vote, TheLargestGroupWins) {
  const Vote found = voted("2", {"\\boxed{1}", "\\boxed{2}", "\\boxed{2.0}"});
  EXPECT_EQ(found.winner, 1);
  EXPECT_EQ(found.votes, 2);
  EXPECT_EQ(found.groups, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(found.verdict, Verdict::same);
  EXPECT_EQ(found.verdicts,
            (std::vector<Verdict>{Verdict::different, Verdict::same, Verdict::same}));
}

TEST(Vote, ATieGoesToTheFirstSample) {
  EXPECT_EQ(voted("2", {"\\boxed{1}", "\\boxed{2}"}).verdict, Verdict::different);
  EXPECT_EQ(voted("2", {"\\boxed{2}", "\\boxed{1}"}).verdict, Verdict::same);
  EXPECT_EQ(
      voted("2", {"\\boxed{3}", "\\boxed{2}", "\\boxed{1}", "\\boxed{1}", "\\boxed{2}"}).winner, 1);
}

TEST(Vote, WhatCannotBeReadNeverVotes) {
  const Vote found = voted("2", {"no idea", "no idea", "\\boxed{2}", ""});
  EXPECT_EQ(found.groups, (std::vector<int>{-1, -1, 2, -1}));
  EXPECT_EQ(found.verdict, Verdict::same);
  EXPECT_TRUE(found.answers[0].empty());
  const Vote nothing = voted("2", {"no idea", ""});
  EXPECT_FALSE(nothing.winner);
  EXPECT_EQ(nothing.verdict, Verdict::different);
}

TEST(Vote, ThoughtsAreNotAnswers) {
  EXPECT_EQ(voted("2", {" so \\boxed{3}? no.</think>It is \\boxed{2}."}).verdict, Verdict::same);
}

// 100 problems with 8 answers of a real model each, and what the reference says about them.
TEST(Vote, AgreesWithTheReferenceOnRealAnswers) {
  const fs::path file = fs::path(DELTASANE_SHARED) / "data/answers/maj8_example.jsonl";
  if (!fs::exists(file)) GTEST_SKIP() << file << ": no reference votes here";
  if (!answers::has_algebra()) GTEST_SKIP() << "this build compares plain numbers only";
  std::ifstream input(file);
  int problems = 0, correct = 0, right_samples = 0;
  for (std::string line; std::getline(input, line); ++problems) {
    const auto row = nlohmann::json::parse(line);
    const auto texts = row["responses"].get<std::vector<std::string>>();
    const Vote found = vote(row["gold"], texts, {});
    correct += found.verdict == Verdict::same;
    right_samples += int(std::ranges::count(found.verdicts, Verdict::same));
  }
  EXPECT_EQ(problems, 100);
  EXPECT_EQ(correct, 91);
  EXPECT_EQ(right_samples, 712);  // 0.890 of 800
}

}  // namespace
}  // namespace deltasane::eval
