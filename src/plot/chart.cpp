#include "plot/figure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plot/gnuplot.h"

namespace deltasane::plot {
namespace {

constexpr const char* colours[] = {"0072B2", "D55E00", "009E73", "CC79A7",
                                   "E69F00", "56B4E9", "000000"};
constexpr const char* pale = "90";  // how transparent, of FF

// Thousands and millions keep the tick labels short.
struct AxisUnit {
  double size = 1;
  const char* suffix = "";
};

AxisUnit unit_of(const Chart& chart) {
  double most = 0;
  for (const Curve& curve : chart.curves)
    for (const double x : curve.x) most = std::isfinite(x) ? std::max(most, x) : most;
  if (most >= 2e6) return {1e6, " (millions)"};
  if (most >= 2e4) return {1e3, " (thousands)"};
  return {};
}

struct Span {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
};

Span span_of(const Chart& chart) {
  Span span;
  for (const Curve& curve : chart.curves)
    for (const double y : curve.y)
      if (std::isfinite(y) && !(chart.log_y && y <= 0))
        span = {std::min(span.least, y), std::max(span.most, y)};
  return span;
}

std::string axes_of(const Chart& chart, const AxisUnit& unit) {
  std::string text =
      cat("set title ", gnuplot_text(chart.title), " offset 0,-0.3\nset xlabel ",
          gnuplot_text(chart.x_label + unit.suffix), "\nset ylabel ", gnuplot_text(chart.y_label),
          "\nset grid lc rgb '#cccccc' lw 1 dt 1\nset border 3 lc rgb '#444444'\n"
          "unset logscale\nset format '% h'\nset autoscale\n"
          "set tics nomirror textcolor rgb '#222222'\n"
          "set key below center horizontal Left reverse samplen 3 maxrows 4 height 1\n");
  if (chart.y_low < chart.y_high)
    text += cat("set yrange [", chart.y_low, ":", chart.y_high, "]\n");
  if (chart.x_low < chart.x_high)
    text += cat("set xrange [", chart.x_low / unit.size, ":", chart.x_high / unit.size, "]\n");
  if (chart.log_x) text += "set logscale x\n";
  if (chart.log_y) text += "set logscale y\nset format y '%.0te%T'\n";
  return text;
}

std::string numbers_of(const Chart& chart, const Curve& curve, const AxisUnit& unit) {
  require(curve.x.size() == curve.y.size(), "a curve has as many x as y");
  std::string text;
  for (size_t i = 0; i < curve.x.size(); ++i) {
    const double x = curve.x[i], y = curve.y[i];
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    if ((chart.log_x && x <= 0) || (chart.log_y && y <= 0)) continue;
    text += cat(x / unit.size, " ", y, "\n");
  }
  return text;
}

// Vertical lines and ranges with a background, and their names for the key.
std::string background_of(const Chart& chart, const AxisUnit& unit, std::string& plot) {
  std::string text = "unset arrow\nunset object\n";
  for (const double mark : chart.marks)
    text += cat("set arrow from first ", mark / unit.size, ", graph 0 to first ", mark / unit.size,
                ", graph 1 nohead dt 3 lw 2 lc rgb '#000000'\n");
  if (!chart.marks.empty() && !chart.mark_label.empty())
    plot +=
        cat(", NaN with lines dt 3 lw 2 lc rgb '#000000' title ", gnuplot_text(chart.mark_label));
  for (const auto& [from, to] : chart.shades)
    text += cat("set object rectangle from first ", from / unit.size, ", graph 0 to first ",
                to / unit.size, ", graph 1 behind fc rgb '#dddddd' fs solid noborder\n");
  if (!chart.shades.empty() && !chart.shade_label.empty())
    plot += cat(", NaN with boxes fs solid noborder lc rgb '#dddddd' title ",
                gnuplot_text(chart.shade_label));
  return text;
}

// The commands that draw a chart; `name` is for messages, `number` keeps charts of a grid apart.
std::string script_of(const Chart& wanted, const std::string& name, size_t number) {
  Chart chart = wanted;
  const Span span = span_of(chart);
  // A logarithmic axis over less than a decade has hardly a tick label; a linear axis around a
  // constant would show the noise of its last digits.
  chart.log_y = chart.log_y && span.most > 10 * span.least;
  if (chart.y_low == chart.y_high && span.most - span.least < 1e-6 * std::abs(span.most)) {
    chart.y_low = span.least - 0.1 * std::abs(span.least);
    chart.y_high = span.most + 0.1 * std::abs(span.most);
  }
  const AxisUnit unit = unit_of(chart);
  std::string body, plot;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const Curve& curve = chart.curves[i];
    const std::string numbers = numbers_of(chart, curve, unit);
    if (numbers.empty()) continue;
    const std::string data = cat("$curve", number, "_", i);
    body += cat(data, " << END\n", numbers, "END\n");
    const size_t colour = curve.colour < 0 ? i : size_t(curve.colour);
    const size_t dashes = curve.dashed ? 2 : colour / std::size(colours) + 1;
    const bool has_points = chart.points && !curve.dashed;
    plot += cat(plot.empty() ? "" : ", ", data, " using 1:2 with ",
                has_points ? "linespoints pt 7 ps 0.6" : "lines", " lw ", curve.width, " dt ",
                dashes, " lc rgb '#", curve.pale ? pale : "", colours[colour % std::size(colours)],
                "' ", curve.label.empty() ? "notitle" : cat("title ", gnuplot_text(curve.label)));
  }
  if (plot.empty()) fail(Fault::argument, "figure ", name, ": expected numbers, found none");
  const std::string background = background_of(chart, unit, plot);
  return cat(body, axes_of(chart, unit), background, "plot ", plot, "\n");
}

}  // namespace

void draw(const Chart& chart, const fs::path& folder, const std::string& name) {
  run_gnuplot(svg_and_png(name, 900, 520, script_of(chart, name, 0)), folder);
}

void draw(const ChartGrid& grid, const fs::path& folder, const std::string& name) {
  require(!grid.charts.empty() && grid.columns > 0, "a grid has charts");
  const int64_t count = int64_t(grid.charts.size()), across = std::min(grid.columns, count);
  const int64_t down = (count + across - 1) / across;
  std::string body = cat(
      "set lmargin 11\nset rmargin 3\nset bmargin 8\n",  // equal, so that axes stand below each other
      "set multiplot layout ", down, ",", across, " title ", gnuplot_text(grid.title), "\n");
  for (size_t i = 0; i < grid.charts.size(); ++i)
    body +=
        grid.charts[i].curves.empty() ? "set multiplot next\n" : script_of(grid.charts[i], name, i);
  body += "unset multiplot\n";
  run_gnuplot(
      svg_and_png(name, grid.panel_width * int(across), grid.panel_height * int(down) + 40, body),
      folder);
}

}  // namespace deltasane::plot
