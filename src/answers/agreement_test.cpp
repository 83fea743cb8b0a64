// Agreement with the verdicts of the reference implementation, where its data is available.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <iostream>

#include "answers/agreement_rows.h"

namespace deltasane::answers {
namespace {

void expect_agreement(const std::string& file, double least) {
  const std::filesystem::path path =
      std::filesystem::path(DELTASANE_SHARED) / "data/answers" / file;
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << ": no reference verdicts here";
  if (!has_algebra()) GTEST_SKIP() << "this build compares plain numbers only";
  const std::vector<test::Row> rows = test::read_rows(path);
  std::vector<Pair> pairs;
  for (const test::Row& row : rows) pairs.push_back(row.pair);
  ThreadPool pool;
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Verdict> verdicts = verify_all(pool, pairs);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const double per_minute = 60 * double(pairs.size()) / spent.count();
  size_t agreed = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((verdicts[i] == Verdict::same) == rows[i].expected) {
      ++agreed;
      continue;
    }
    const Answer gold = extract(pairs[i].gold, pairs[i].options);
    const Answer prediction = extract(pairs[i].prediction, pairs[i].options);
    std::cout << file << " row " << i << " (" << rows[i].kind << "): expected "
              << (rows[i].expected ? "same" : "different") << "\n  gold " << pairs[i].gold
              << "\n    " << describe(gold) << "\n  pred " << pairs[i].prediction << "\n    "
              << describe(prediction) << "\n";
  }
  const double share = double(agreed) / double(rows.size());
  std::cout << file << ": " << agreed << " of " << rows.size() << " agree (" << 100 * share
            << " %)\n";
  std::cout << int(per_minute) << " checks a minute on " << pool.size() << " threads\n";
  EXPECT_GE(share, least);
}

TEST(Agreement, WithTheReferenceOnPairs) { expect_agreement("pairs.jsonl", 0.99); }
TEST(Agreement, WithTheReferenceOnItsOwnTests) { expect_agreement("upstream_tests.jsonl", 0.97); }

}  // namespace
}  // namespace deltasane::answers
