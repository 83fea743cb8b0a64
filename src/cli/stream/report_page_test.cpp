#include <gtest/gtest.h>

#include "cli/page/page.h"
#include "cli/stream/report.h"

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
  for (const char* part : {"prefers-color-scheme: dark", "max-width: 480px", "@media print",
                           "'role', 'img'", "svgNode(svg, 'title'"})
    EXPECT_NE(html.find(part), html.npos) << part;
}

}  // namespace
}  // namespace deltasane::cli
