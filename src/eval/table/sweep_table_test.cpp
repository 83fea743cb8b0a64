#include "eval/table/sweep_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eval/table/sweep_report.h"
#include "eval/table/sweep_verdict.h"
#include "support/errors.h"

namespace deltasane::eval {
namespace {

const fs::path paper = fs::path(DELTASANE_SOURCE) / "test/data/paper";

SweepTable paper_table(const char* name = "all_scores.csv") {
  return sweep_table_from_csv(read_file(paper / name), name);
}

// The paper's own numbers, which come out of its scores. Printed averages have two digits, p-values three.
constexpr double printed_averages[]{43.88, 41.53, 42.68, 43.58, 43.75, 43.46,
                                    43.30, 43.88, 44.14, 44.16, 44.23};
constexpr double printed_after[]{37.40, 35.77, 35.56, 34.72, 33.46, 24.48, 18.45, 0.15, 0.03, 0.03};
constexpr double printed_p[]{0.006, 0.539, 0.754, 0.154, 0.202, 0.994, 0.581, 0.707, 0.250};

TEST(PaperTable, AveragesComeOutOfItsScores) {
  const SweepTable table = paper_table();
  ASSERT_EQ(table.plain.size(), 11u);
  ASSERT_EQ(table.after.size(), 10u);
  EXPECT_EQ(table.prefix, "100M tokens");
  EXPECT_EQ(table.benchmarks.size(), 11u);
  for (size_t i = 0; i < 11; ++i)
    EXPECT_NEAR(table.plain[i].average(), printed_averages[i], 0.005001) << table.plain[i].name();
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(table.after[i].alpha, double(i + 1));
    EXPECT_NEAR(table.after[i].average(), printed_after[i], 0.005001) << table.after[i].name();
  }
}

TEST(PaperTable, PValuesComeOutOfItsScores) {
  for (const char* file : {"all_scores.csv", "main_table.csv"}) {
    const SweepTable table = paper_table(file);
    ASSERT_EQ(table.plain.size(), 11u);
    const auto p = [&](size_t first, size_t second) {
      return test_rows(table.plain[first], table.plain[second])->p;
    };
    EXPECT_LT(p(0, 1), 0.001);
    for (size_t i = 2; i <= 10; ++i)
      EXPECT_NEAR(p(0, i), printed_p[i - 2], 0.0005) << table.plain[i].name();
    EXPECT_NEAR(p(5, 10), 0.038, 0.0005);
    EXPECT_EQ(test_rows(table.plain[5], table.plain[10])->degrees, 10);
  }
}

TEST(PaperTable, SafeRangeAndParetoChoiceAreThePapers) {
  const SweepVerdict verdict = judge(paper_table());
  EXPECT_EQ(verdict.harmless, (std::vector<double>{3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(verdict.collapsed, (std::vector<double>{8, 9, 10}));
  EXPECT_EQ(verdict.safe, (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(verdict.front, (std::vector<double>{1, 2, 3, 4, 7, 8, 9, 10}));
  EXPECT_EQ(verdict.choice, 3);
}

// The texts as they were read by a person once. To change them: write what the program prints there.
TEST(PaperTable, IsWrittenAsItWasRead) {
  const SweepTable table = paper_table();
  const SweepVerdict verdict = judge(table);
  EXPECT_EQ(to_markdown(table, verdict), read_file(paper / "table.md"));
  EXPECT_EQ(to_latex(table), read_file(paper / "table.tex"));
}

TEST(PaperTable, ItsOwnCsvIsReadAgain) {
  SweepTable table = paper_table();
  add_overflow(table, std::nullopt);
  const SweepTable again = sweep_table_from_csv(to_csv(table), "table.csv");
  EXPECT_EQ(to_csv(again), to_csv(table));
  EXPECT_EQ(to_latex(again), to_latex(table));
  EXPECT_TRUE(again.after[0].overflowed);
  const std::string pairs = p_values_csv(table);
  EXPECT_EQ(std::ranges::count(pairs, '\n'), 1 + 11 * 10 / 2 + 10 * 9 / 2);
  EXPECT_NE(pairs.find("\n0,alpha 5,alpha 10,0.77"), pairs.npos) << pairs;
}

TEST(PaperTable, FigureHasBothCurvesTheBaselineAndTheCollapse) {
  const SweepTable table = paper_table();
  const plot::Chart chart = accuracy_chart(table, judge(table));
  ASSERT_EQ(chart.curves.size(), 3u);
  EXPECT_EQ(chart.curves[0].x.size(), 10u);
  EXPECT_EQ(chart.curves[1].label, "After 100M tokens");
  EXPECT_TRUE(chart.curves[2].dashed);
  EXPECT_NEAR(chart.curves[2].y[0], 43.88, 0.005);
  EXPECT_EQ(chart.shades, (std::vector<std::pair<double, double>>{{7.5, 10.5}}));
}

SweepTable table_of_rows(std::vector<SweepRow> plain, std::vector<SweepRow> after) {
  return {{"a", "b", "c"}, after.empty() ? "" : "9 tokens", std::move(plain), std::move(after)};
}

TEST(SweepVerdict, FollowsItsRules) {
  // alpha 1 loses everywhere by about one point: significant. 2 is as the baseline and the best after;
  // 4 is above it, but loses 9 points after the prefix each time; 8 has collapsed.
  SweepTable table =
      table_of_rows({{std::nullopt, {50, 60, 70}},
                     {1, {49, 58.9, 69.1}},
                     {2, {50, 61, 69}},
                     {4, {52, 62, 72}},
                     {8, {51, 60, 73}}},
                    {{1, {49, 58, 69}}, {2, {45, 55, 65}}, {4, {36, 46.1, 56}}, {8, {5, 5, 5}}});
  const SweepVerdict verdict = judge(table);
  EXPECT_EQ(verdict.harmless, (std::vector<double>{2, 4, 8}));
  EXPECT_EQ(verdict.collapsed, (std::vector<double>{8}));
  EXPECT_EQ(verdict.safe, (std::vector<double>{2}));
  EXPECT_EQ(verdict.front, (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(verdict.choice, 2);
  add_overflow(table, std::nullopt);
  const std::vector<std::string> words = sentences(table, verdict);
  EXPECT_EQ(words[0],
            "Without a prefix alpha 1 is significantly below the baseline (p < 0.05); alpha 2 to 8 "
            "are not.");
  EXPECT_EQ(words[1], "Within 9 tokens the state overflows: baseline.");
  // A stricter level finds no harm in alpha 1, which then is best after the prefix, and alone.
  const SweepVerdict strict = judge(table, 1e-4);
  EXPECT_EQ(strict.harmless, (std::vector<double>{1, 2, 4, 8}));
  EXPECT_EQ(strict.choice, 1);
}

TEST(SweepVerdict, SaysWhatIsMissing) {
  SweepTable table = table_of_rows({{2, {50, 61, 69}}}, {{2, {45, 55, 65}}});
  EXPECT_EQ(sentences(table, judge(table)),
            (std::vector<std::string>{"There is no baseline to compare with."}));
  table = table_of_rows({{std::nullopt, {50, 60, 70}}, {2, {50, 61, 69}}}, {{2, {}, true}});
  const SweepVerdict verdict = judge(table);
  EXPECT_EQ(verdict.collapsed, (std::vector<double>{2}));
  EXPECT_TRUE(verdict.safe.empty());
  EXPECT_TRUE(sentences(table, verdict).back().starts_with("No alpha is safe"));
  table.after.clear();
  EXPECT_EQ(sentences(table, judge(table)).size(), 1u);
}

TEST(SweepVerdict, NamesRanges) {
  const std::vector<double> all{1, 2, 3, 5, 10};
  EXPECT_EQ(alphas_text({}, all), "");
  EXPECT_EQ(alphas_text({3}, all), "3");
  EXPECT_EQ(alphas_text({3, 5}, all), "3 and 5");
  EXPECT_EQ(alphas_text({1, 3, 5, 10}, all), "1, 3 to 10");
}

Run run_of(const std::string& name, double alpha, const std::string& prefix, int64_t solved) {
  Run run{name, "", alpha > 0 ? "trained" : "none", alpha, {}, prefix};
  for (const char* benchmark : {"x", "y"}) {
    run.benchmarks.push_back({benchmark, benchmark, 10, {}});
    for (int64_t row = 1; row <= 10; ++row)
      run.benchmarks.back().done[row] = {{benchmark, row}, row <= solved, 8, row, 1, 0};
  }
  return run;
}

TEST(SweepTable, SortsRunsByPrefixAndAlpha) {
  std::vector<eval::Run> runs{run_of("d", 5, "state at 99 tokens", 3), run_of("b", 5, "", 7),
                              run_of("a", 0, "", 8), run_of("c", 0.5, "", 6)};
  const SweepTable table = sweep_table(runs, Unfinished::refuse);
  EXPECT_EQ(table.prefix, "99 tokens");
  ASSERT_EQ(table.plain.size(), 3u);
  EXPECT_EQ(table.plain[1].name(), "alpha 0.5");
  EXPECT_EQ(table.plain[2].average(), 70);
  EXPECT_EQ(table.after[0].average(), 30);
  ASSERT_NE(table.baseline(), nullptr);
  runs.push_back(run_of("e", 5, "", 1));
  EXPECT_FAULT(sweep_table(runs, Unfinished::refuse), Fault::file,
               "e: expected one run of each alpha, found another one of alpha 5");
  runs.back() = run_of("e", 1, "state at 7 tokens", 1);
  EXPECT_FAULT(sweep_table(runs, Unfinished::refuse), Fault::file, "e: expected the prefix");
}

TEST(SweepTable, BadTablesAreNamed) {
  const auto refuses = [](const std::string& text, const char* part) {
    EXPECT_FAULT(sweep_table_from_csv(text, "t.csv"), Fault::file, part);
  };
  const std::string scores = "prefix,model,alpha,benchmark,score\n";
  refuses(scores, "t.csv: expected scores without a prefix");
  refuses(scores + "0,m,,x,1,2\n", "t.csv:2: expected 5 cells, found 6");
  refuses(scores + "0,m,,x,many\n", "t.csv:2: expected a score from 0 to 100");
  refuses(scores + "0,m,three,x,1\n", "t.csv:2: expected an alpha above 0");
  refuses(scores + "0,m,,x,1\n0,m,,y,1\n0,m,1,y,1\n", "t.csv:4: expected x");
  refuses(scores + "0,m,,x,1\n0,m,,y,1\n0,m,1,x,1\n", "alpha 1: expected 2 benchmarks, found 1");
  refuses(scores + "0,m,,x,1\n9,m,1,x,1\n8,m,1,x,1\n", "a table has one prefix");
  refuses("prefix,model,alpha,x,y\n0,m,,1,2\n", "expected a column 'average'");
  refuses("benchmark,a,b\nx,1,2\n", "expected one column for the baseline");
}

}  // namespace
}  // namespace deltasane::eval
