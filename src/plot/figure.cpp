#include "plot/figure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plot/gnuplot.h"

namespace deltasane::plot {
namespace {

constexpr const char* colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                   "#E69F00", "#56B4E9", "#000000"};
constexpr const char* viridis =
    "set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', 4 '#21918c', "
    "5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')\n";

// The terminals, one after the other: the same figure as SVG and as PNG.
std::string terminals(const std::string& name, int width, int height, const std::string& body) {
  const std::string size = cat(width, ",", height);
  return cat("set terminal svg size ", size,
             " font 'DejaVu Sans,Helvetica,sans-serif,15' background 'white' noenhanced\n"
             "set output ",
             gnuplot_text(name + ".svg"), "\n", body, "set terminal pngcairo size ", size,
             " font 'sans,12' noenhanced\n"
             "set output ",
             gnuplot_text(name + ".png"), "\n", body, "unset output\n");
}

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
          "set tics nomirror textcolor rgb '#222222'\n"
          "set key below center horizontal Left reverse samplen 3 maxrows 4 height 1\n");
  if (chart.y_low < chart.y_high)
    text += cat("set yrange [", chart.y_low, ":", chart.y_high, "]\n");
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

}  // namespace

void draw(const Chart& wanted, const fs::path& folder, const std::string& name) {
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
    const std::string numbers = numbers_of(chart, chart.curves[i], unit);
    if (numbers.empty()) continue;
    body += cat("$curve", i, " << END\n", numbers, "END\n");
    const char* const with = chart.points ? "linespoints pt 7 ps 0.6" : "lines";
    plot += cat(plot.empty() ? "" : ", ", "$curve", i, " using 1:2 with ", with, " lw 2 dt ",
                i / std::size(colours) + 1, " lc rgb '", colours[i % std::size(colours)],
                "' title ", gnuplot_text(chart.curves[i].label));
  }
  if (plot.empty()) fail(Fault::argument, "figure ", name, ": expected numbers, found none");
  std::string marks;
  for (const double mark : chart.marks)
    marks += cat("set arrow from first ", mark / unit.size, ", graph 0 to first ", mark / unit.size,
                 ", graph 1 nohead dt 3 lw 2 lc rgb '#000000'\n");
  if (!marks.empty() && !chart.mark_label.empty())
    plot +=
        cat(", NaN with lines dt 3 lw 2 lc rgb '#000000' title ", gnuplot_text(chart.mark_label));
  body += axes_of(chart, unit) + marks + "plot " + plot + "\n";
  run_gnuplot(terminals(name, 900, 520, body), folder);
}

HeatPanel downsampled(const HeatPanel& panel, int64_t max_rows, int64_t max_columns) {
  const int64_t down = (panel.rows + max_rows - 1) / max_rows;
  const int64_t across = (panel.columns + max_columns - 1) / max_columns;
  HeatPanel out{
      panel.title, (panel.rows + down - 1) / down, (panel.columns + across - 1) / across, {}};
  out.values.assign(size_t(out.rows * out.columns), std::numeric_limits<float>::quiet_NaN());
  for (int64_t r = 0; r < panel.rows; ++r)
    for (int64_t c = 0; c < panel.columns; ++c) {
      float& here = out.values[size_t(r / down * out.columns + c / across)];
      here = std::fmax(here, std::abs(panel.values[size_t(r * panel.columns + c)]));
    }
  return out;
}

namespace {

// Numbers, or the names of bands, of many every so many.
std::string row_ticks(const HeatMap& map, double units, bool named) {
  if (map.bands.empty()) return cat("set ytics ", std::max(1.0, std::ceil(units / 8)), "\n");
  const size_t every = (map.bands.size() + 15) / 16;
  std::string text;
  for (size_t i = 0; i < map.bands.size(); i += every) {
    const HeatMap::Band& band = map.bands[i];
    text += cat(i ? ", " : "", gnuplot_text(named ? band.label : ""), " ",
                (band.from + band.to) / 2 / map.rows_per_unit);
  }
  return cat("set ytics (", text, ")\n");
}

std::string lines_of(const HeatMap& map) {
  std::string text = "unset arrow\n";
  for (const HeatMap::Line& line : map.lines)
    text += cat("set arrow from ", line.column / map.columns_per_unit, ", ",
                line.row / map.rows_per_unit, " to ", line.to_column / map.columns_per_unit, ", ",
                line.to_row / map.rows_per_unit, " nohead front lw 1 lc rgb '#ffffff'\n");
  return text;
}

}  // namespace

void draw(const HeatMap& map, const fs::path& folder, const std::string& name) {
  require(!map.panels.empty() && map.low > 0 && map.high > map.low, "a heat map has a scale");
  const auto count = int(map.panels.size()), across = std::min(count, 4);
  const int down = (count + across - 1) / across;
  const double width = 300.0 * across + 190, height = 300.0 * down + 90;  // pixels, as all below
  const double left = 70 / width, right = 1 - 120 / width;
  const double bottom = 60 / height, top = 1 - 65 / height;
  std::string body =
      cat(viridis, "set logscale cb\nset cbrange [", map.low, ":", map.high,
          "]\nset format cb '%.0te%T'\nset tics out nomirror scale 0.5\n"
          "set border lc rgb '#444444'\nunset key\nset multiplot layout ",
          down, ",", across, " title ", gnuplot_text(map.title), " margins screen ", left, ",",
          right, ",", bottom, ",", top, " spacing screen ", 20 / width, ",", 80 / height, "\n");
  const auto ticks = [](double units) { return std::max(1.0, std::ceil(units / 8)); };
  for (int i = 0; i < count; ++i) {
    const HeatPanel& panel = map.panels[size_t(i)];
    require(int64_t(panel.values.size()) == panel.rows * panel.columns, "a panel is complete");
    std::string numbers;
    for (int64_t r = 0; r < panel.rows; ++r) {
      for (int64_t c = 0; c < panel.columns; ++c) {
        const double value = double(panel.values[size_t(r * panel.columns + c)]);
        numbers += c ? " " : "";
        numbers += std::isnan(value) ? "NaN" : cat(std::clamp(value, map.low, map.high));
      }
      numbers += '\n';
    }
    const bool is_first = i % across == 0;
    const double rows = double(panel.rows) / map.rows_per_unit;
    const double columns = double(panel.columns) / map.columns_per_unit;
    body += cat("$panel", i, " << END\n", numbers, "END\nset title ", gnuplot_text(panel.title),
                " offset 0,-0.6\nset xlabel ", gnuplot_text(map.x_label),
                " offset 0,0.5\nset ylabel ", gnuplot_text(is_first ? map.y_label : ""),
                "\nset yrange [", rows, ":0]\n", row_ticks(map, rows, is_first),
                "set xrange [0:", columns, "]\nset xtics ", ticks(columns), "\nset format y '",
                is_first ? "%g" : "", "'\n", lines_of(map));
    body += i > 0 ? std::string("unset colorbox\n")
                  : cat("set colorbox user origin screen ", right + 15 / width, ",", bottom,
                        " size screen ", 16 / width, ",", top - bottom, "\nset cblabel ",
                        gnuplot_text(map.colour_label), "\n");
    body += cat("plot $panel", i, " matrix using (($1 + 0.5) / ", map.columns_per_unit,
                "):(($2 + 0.5) / ", map.rows_per_unit, "):3 with image\n");
  }
  body += "unset multiplot\n";
  run_gnuplot(terminals(name, int(width), int(height), body), folder);
}

}  // namespace deltasane::plot
