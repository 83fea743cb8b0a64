#include "plot/figure.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <limits>

#include "plot/gnuplot.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::plot {
namespace {

bool has_gnuplot() {
  const test::Scratch scratch;
  try {
    run_gnuplot("", scratch.path());
  } catch (const Error&) {
    return false;
  }
  return true;
}

Chart example_chart() {
  Chart chart{.title = "Norm, 'quoted' & <odd>", .x_label = "tokens", .y_label = "norm"};
  chart.log_y = true;
  chart.curves = {{"first $x", {1, 2, 3}, {1, std::numeric_limits<double>::infinity(), 1e20}},
                  {"second", {1, 2, 3}, {0, 2, 4}},
                  {"nothing", {1}, {std::nan("")}}};
  chart.marks = {2.5};
  chart.mark_label = "overflow";
  return chart;
}

TEST(Figure, IsDrawnAsSvgAndPng) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const test::Scratch scratch;
  draw(example_chart(), scratch.path(), "norm");
  HeatMap map{.title = "State", .x_label = "head", .y_label = "layer", .colour_label = "|S|"};
  map.low = 0.01, map.high = 100;
  for (const char* title : {"4096 tokens", "65536 tokens"})
    map.panels.push_back({title, 2, 3, {0, 1e-3f, 1, 10, 1000, 5}});
  draw(map, scratch.path(), "state");
  for (const char* name : {"norm", "state"}) {
    const std::string svg = read_file(scratch.path() / (std::string(name) + ".svg"));
    EXPECT_NE(svg.find("</svg>"), std::string::npos);
    EXPECT_EQ(read_file(scratch.path() / (std::string(name) + ".png")).substr(1, 3), "PNG");
  }
  const std::string svg = read_file(scratch.path() / "norm.svg");
  for (const char* text : {"'quoted' &amp; &lt;odd", "first $x", "overflow"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("nothing"), std::string::npos);
  // Nothing is left beside the figures, and the picture of the heat map is inside its file.
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path()), fs::directory_iterator{}), 4);
  EXPECT_NE(read_file(scratch.path() / "state.svg").find("data:image/png;base64"),
            std::string::npos);
}

TEST(Figure, GridsHaveAllTheirChartsAndShades) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const test::Scratch scratch;
  ChartGrid grid{.title = "Two panels", .columns = 2};
  grid.charts = {example_chart(), example_chart()};
  grid.charts[0].curves[1].dashed = true;
  grid.charts[1].title = "with a shade";
  grid.charts[1].shades = {{1, 2}};
  grid.charts[1].shade_label = "collapse";
  draw(grid, scratch.path(), "grid");
  const std::string svg = read_file(scratch.path() / "grid.svg");
  for (const char* text : {"Two panels", "'quoted' &amp; &lt;odd", "with a shade", "collapse",
                           "rgb(221, 221, 221)", "stroke-dasharray"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  HeatMap map{.title = "State", .x_label = "entry", .y_label = "layer", .colour_label = "|S|"};
  map.high = 100, map.linear = true, map.columns = 2;
  map.panels = {{"one", 1, 2, {0, 200}}, {"two", 1, 2, {0, 50}}, {"three", 1, 2, {0, 1}}};
  draw(map, scratch.path(), "linear");
  EXPECT_NE(read_file(scratch.path() / "linear.svg").find("three"), std::string::npos);
}

TEST(Figure, WithoutNumbersIsAnError) {
  const test::Scratch scratch;
  Chart chart = example_chart();
  chart.curves = {{"nothing", {1}, {std::nan("")}}};
  EXPECT_FAULT(draw(chart, scratch.path(), "none"), Fault::argument, "expected numbers");
}

TEST(Figure, NamesThePackageWithoutGnuplot) {
  const test::Scratch scratch;
  const std::string before = ::getenv("PATH");
  ::setenv("PATH", scratch.path().c_str(), 1);
  EXPECT_FAULT(draw(example_chart(), scratch.path(), "norm"), Fault::device, "gnuplot-nox");
  ::setenv("PATH", before.c_str(), 1);
}

TEST(Figure, DownsamplingKeepsTheHotSpots) {
  HeatPanel panel{"p", 5, 7, std::vector<float>(35, 0.5f)};
  panel.values[4 * 7 + 6] = -9;
  panel.values[0] = 3;
  const HeatPanel small = downsampled(panel, 2, 3);
  EXPECT_EQ(small.rows, 2);
  EXPECT_EQ(small.columns, 3);
  EXPECT_EQ(small.values, (std::vector<float>{3, 0.5f, 0.5f, 0.5f, 0.5f, 9}));
  EXPECT_EQ(downsampled(panel, 5, 7).values[34], 9);
}

TEST(Figure, ASmallerPanelIsBlankWhereAllOfABlockIs) {
  const float blank = std::nanf("");
  const HeatPanel panel{"p", 2, 4, {1, blank, blank, blank, blank, -2, blank, blank}};
  const HeatPanel small = downsampled(panel, 1, 2);
  EXPECT_EQ(small.values[0], 2);
  EXPECT_TRUE(std::isnan(small.values[1]));
}

TEST(Figure, NamesBandsOfRowsAndLeavesBlanks) {
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const test::Scratch scratch;
  HeatMap map{.title = "State", .x_label = "key", .y_label = "layer", .colour_label = "|S|"};
  map.low = 0.01, map.high = 100;
  map.bands = {{"band A", 0, 2}, {"band B", 2, 3}};
  map.lines = {{0, 2, 2, 2}};
  for (const char* title : {"first", "second"})
    map.panels.push_back({title, 3, 2, {1, 2, 3, 4, 5, std::nanf("")}});
  draw(map, scratch.path(), "bands");
  const std::string svg = read_file(scratch.path() / "bands.svg");
  const size_t first = svg.find("band A");
  ASSERT_NE(first, svg.npos);
  EXPECT_EQ(svg.find("band A", first + 1), svg.npos);  // beside the first panel alone
  EXPECT_NE(svg.find("band B"), svg.npos);
}

}  // namespace
}  // namespace deltasane::plot
