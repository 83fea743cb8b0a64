#include "eval/run/score_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/errors.h"

namespace deltasane::eval {
namespace {

// Two benchmarks of 10 problems; `solved` of each are right, the first ones.
Run run_of(const std::string& name, double alpha, std::vector<int64_t> solved) {
  Run run{name, "", alpha > 0 ? "trained" : "none", alpha, {}};
  for (size_t b = 0; b < solved.size(); ++b) {
    run.benchmarks.push_back({cat("b", b), cat("Benchmark ", b), 10, {}});
    for (int64_t row = 1; row <= 10; ++row)
      run.benchmarks[b].done[row] = {{cat("b", b), row}, row <= solved[b], 8, row, 1, 0};
  }
  return run;
}

struct ScoreTableTest : testing::Test {
  ThreadPool threads{2};
  std::vector<eval::Run> runs{run_of("baseline", 0, {5, 8}), run_of("three", 3, {7, 9}),
                              run_of("one", 1, {1, 8})};
  Comparison compared() {
    return compare(table_of(runs, Unfinished::refuse), {.resamples = 200}, threads);
  }
};

TEST_F(ScoreTableTest, ComparesWithTheFirstRun) {
  const Comparison c = compared();
  EXPECT_DOUBLE_EQ(c.average[0], 65);
  EXPECT_DOUBLE_EQ(c.average[1], 80);
  EXPECT_FALSE(c.against[0]);
  EXPECT_EQ(c.against[1]->only_this, 3);
  EXPECT_EQ(c.against[1]->only_baseline, 0);
  EXPECT_DOUBLE_EQ(c.against[1]->mcnemar, 0.25);
  EXPECT_DOUBLE_EQ(c.against[1]->t->difference, 15);
  EXPECT_DOUBLE_EQ(c.against[1]->t->t, 3);  // 20 and 10: 15 / (7.07 / 1.41)
  EXPECT_EQ(c.against[2]->only_baseline, 4);
  EXPECT_LE(c.against[1]->difference.low, 15);
  EXPECT_GE(c.against[1]->difference.high, 15);
}

TEST_F(ScoreTableTest, WritesMarkdownCsvAndJson) {
  const Comparison c = compared();
  const std::string markdown = to_markdown(c), csv = to_csv(c), json = to_json(c);
  for (const char* part : {"| majority vote, % | baseline | three (alpha 3) | one (alpha 1) |",
                           "| Benchmark 0 | 50.00 | 70.00 | 10.00 |", "| **average** | 65.00 |",
                           "| difference | - | +15.00 | -20.00 |", "3 / 0"})
    EXPECT_NE(markdown.find(part), std::string::npos) << part << "\n" << markdown;
  EXPECT_TRUE(csv.starts_with("benchmark,baseline,three,one\nBenchmark 0,50,70,10\n")) << csv;
  EXPECT_NE(json.find("\"p_mcnemar\": 0.25"), std::string::npos) << json;
}

TEST_F(ScoreTableTest, ReadsItsOwnCsv) {
  const Comparison c = compared();
  const ScoreTable again = table_from_csv(to_csv(c), "table.csv");
  EXPECT_EQ(again.accuracy, c.table.accuracy);
  EXPECT_EQ(again.benchmarks, c.table.benchmarks);
  const Comparison scores = compare(again, {}, threads);
  EXPECT_DOUBLE_EQ(scores.against[1]->t->p, c.against[1]->t->p);
  EXPECT_EQ(to_markdown(scores).find("McNemar"), std::string::npos);
}

TEST_F(ScoreTableTest, DrawsRunsWithAlphaInOrder) {
  const std::string script = score_figure(compared(), "it's.svg");
  EXPECT_NE(script.find("set output 'it''s.svg'"), std::string::npos);
  EXPECT_LT(script.find("\n1 45 "), script.find("\n3 80 "));
  EXPECT_NE(script.find("65 with lines"), std::string::npos);
  EXPECT_NE(script.find("set ylabel 'average accuracy, % (bars: 95 % intervals)'"), std::string::npos);
}

TEST_F(ScoreTableTest, DrawsTwoRunsByBenchmark) {
  runs.resize(2);
  const Comparison two = compared();
  const std::string script = score_figure(two, "x.svg");
  EXPECT_NE(script.find("\nBenchmark 0\t50\t"), std::string::npos) << script;
  EXPECT_NE(script.find("\naverage\t65\t"), std::string::npos) << script;
  EXPECT_NE(script.find("$runs using 2:3:4:xtic(1) lc rgb '#0072b2' title 'baseline', "
                        "$runs using 5:6:7 lc rgb '#e69f00' title 'three (alpha 3)'"),
            std::string::npos)
      << script;
  EXPECT_NE(script.find("set ylabel 'accuracy, % (bars: 95 % intervals)'"), std::string::npos) << script;
  // Scores alone have no intervals.
  const std::string scores =
      score_figure(compare(table_from_csv(to_csv(two), "table.csv"), {}, threads), "x.svg");
  EXPECT_NE(scores.find("\nBenchmark 0\t50\t70\n"), std::string::npos) << scores;
  EXPECT_NE(scores.find("$runs using 2:xtic(1) lc rgb '#0072b2' title 'baseline', $runs using 3 lc"),
            std::string::npos)
      << scores;
  EXPECT_NE(scores.find("set ylabel 'accuracy, %'"), std::string::npos) << scores;
}

TEST_F(ScoreTableTest, RefusesWhatCannotBeCompared) {
  runs[1].benchmarks[0].done.erase(4);
  EXPECT_FAULT(compared(), Fault::file, "three: expected a complete run, found 1 of 10 problems");
  const ScoreTable shared = table_of(runs, Unfinished::shared);
  EXPECT_EQ(shared.outcomes[0][0].size(), 9u);
  EXPECT_NEAR(shared.accuracy[0][0], 100 * 4.0 / 9, 1e-12);
  runs[1].benchmarks[0].name = "other";
  EXPECT_FAULT(compared(), Fault::file, "expected the benchmarks of baseline (b0, b1)");
}

TEST(ScoreCsv, BadTablesAreNamed) {
  const auto refuses = [](const char* text, const char* part) {
    EXPECT_FAULT(table_from_csv(text, "t.csv"), Fault::file, part);
  };
  refuses("", "t.csv: expected rows");
  refuses("benchmark\n", "t.csv:1: expected 'benchmark' and the names");
  refuses("benchmark,a,b\nx,1\n", "t.csv:2: expected 3 cells, found 2");
  refuses("benchmark,a,b\nx,1,two\n", "t.csv:2: expected a score from 0 to 100, found 'two'");
  refuses("benchmark,a,b\nx,1,101\n", "found '101'");
}

}  // namespace
}  // namespace deltasane::eval
