#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/page/page.h"
#include "cli/stream/report.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::cli {
namespace {

TEST(ReportPage, AnswersAreLostWhereTheyStayBelowHalf) {
  EXPECT_EQ(lost_answers_at({}), std::nullopt);
  EXPECT_EQ(lost_answers_at({{0, 1.0}, {10, 0.9}, {20, 0.6}}), std::nullopt);
  EXPECT_EQ(lost_answers_at({{0, 1.0}, {10, 0.4}, {20, 0.6}, {30, 0.4}, {40, 0.1}}), 30);
  EXPECT_EQ(lost_answers_at({{0, 0.2}, {10, 0.8}, {20, 0.3}}), 20);
  EXPECT_EQ(lost_answers_at({{0, 0.0}, {10, 0.0}}), std::nullopt);
}

// Names come from files: none of them can leave its place in the page.
TEST(ReportPage, TextStaysText) {
  Page page("<b>title</b>");
  plot::Chart chart{.title = "a & b", .x_label = "x", .y_label = "y"};
  chart.curves.push_back({"</script><script>alert(1)</script>", {0, 1, 2}, {1, 1.0 / 0.0, 3}});
  page.add({chart, "<i>caption</i>"});
  page.add(PageTable{{{"one", true}, {"two"}}, {{"<td>", "2"}}});
  const std::string html = page.html();
  for (const char* never : {"<b>title", "<i>caption", "<script>alert", "><td><", "inf"})
    EXPECT_EQ(html.find(never), html.npos) << never;
  EXPECT_NE(html.find("\"y\":[1,null,3]"), html.npos);
  EXPECT_NE(html.find("\\u003c/script>\\u003cscript>alert(1)"), html.npos);
  for (const char* part : {"prefers-color-scheme: dark", "max-width: 900px", "@media print",
                           "'role', 'img'", "svgNode(svg, 'title'"})
    EXPECT_NE(html.find(part), html.npos) << part;
}

// As wide as reports are, with a norm that grows by less than a decade.
TEST(ReportPage, ChromiumShowsIt) {
  if (test::run({"chromium", "--version"}).exit_code != 0) GTEST_SKIP() << "there is no chromium";
  const char* const named = std::getenv("DELTASANE_PYTHON");
  const std::string python = named ? named : "python3";
  if (test::run({python, "-c", "import playwright"}).exit_code != 0)
    GTEST_SKIP() << "this Python has no playwright";
  Page page("runs");
  PageTable table{{{"run", true}, {"outcome", true}}, {}};
  std::vector<std::string> row{"arithmetic-baseline", "failed at 131072 tokens, as its norm grew"};
  for (const char* const title : {"accuracy, first", "accuracy, last", "norm, first", "norm, last",
                                  "max |S|, last", "perplexity", "tokens"}) {
    table.columns.push_back({title});
    row.emplace_back("1.23e+04");
  }
  table.rows = {row, row};
  page.add(table);
  plot::Chart chart{.title = "norm", .x_label = "tokens", .y_label = "norm", .log_y = true};
  chart.curves.push_back({"one", {0, 450, 500, 550, 1000}, {0.5, 1.5, 3, 5.9, 20}});
  page.add({chart, "caption"});
  page.add_drawing("<svg width='1200' height='500' viewBox='0 0 1200 500'><text x='9' y='99'>head"
                   "</text></svg>", "heat map", "all heads");
  const test::Scratch scratch;
  const std::string path = scratch.path() / "report.html";
  replace_file(path, page.html());
  const test::Outcome outcome = test::run(
      {python, DELTASANE_SOURCE "/test/support/report_page.py", path, scratch.path().string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace deltasane::cli
