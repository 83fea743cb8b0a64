#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plot/figure.h"
#include "plot/gnuplot.h"

namespace deltasane::plot {
namespace {

constexpr const char* viridis =
    "set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', 4 '#21918c', "
    "5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')\n";

// Light near zero, dark at the top of the scale.
constexpr const char* white_to_dark =
    "set palette defined (0 '#ffffff', 1 '#fee8c8', 3 '#fdbb84', 5 '#e34a33', 8 '#7f0000', "
    "10 '#200000')\n";

}  // namespace

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
  require(!map.panels.empty() && (map.linear || map.low > 0) && map.high > map.low,
          "a heat map has a scale");
  const auto count = int(map.panels.size()), across = std::min(count, int(map.columns));
  const int down = (count + across - 1) / across;
  // In pixels, as all below.
  const double width = map.panel_width * across + 190, height = map.panel_height * down + 90;
  const double left = 70 / width, right = 1 - 120 / width;
  const double bottom = 60 / height, top = 1 - 65 / height;
  std::string body = cat(
      map.linear ? white_to_dark : viridis, map.linear ? "" : "set logscale cb\n", "set cbrange [",
      map.low, ":", map.high, "]\nset format cb '", map.linear ? "%g" : "%.0te%T",
      "'\nset tics out nomirror scale 0.5\n"
      "set border lc rgb '#444444'\nunset key\nset multiplot layout ",
      down, ",", across, " title ", gnuplot_text(map.title), " margins screen ", left, ",", right,
      ",", bottom, ",", top, " spacing screen ", 20 / width, ",", 80 / height, "\n");
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
    body +=
        cat("$panel", i, " << END\n", numbers, "END\nset title ", gnuplot_text(panel.title),
            " offset 0,-0.6\nset xlabel ", gnuplot_text(map.x_label), " offset 0,0.5\nset ylabel ",
            gnuplot_text(is_first ? map.y_label : ""), "\nset yrange [", rows, ":0]\n",
            row_ticks(map, rows, is_first), "set xrange [0:", columns, "]\nset xtics ",
            ticks(columns), "\nset format y '", is_first ? "%g" : "", "'\n", lines_of(map));
    body += i > 0 ? std::string("unset colorbox\n")
                  : cat("set colorbox user origin screen ", right + 15 / width, ",", bottom,
                        " size screen ", 16 / width, ",", top - bottom, "\nset cblabel ",
                        gnuplot_text(map.colour_label), "\n");
    body += cat("plot $panel", i, " matrix using (($1 + 0.5) / ", map.columns_per_unit,
                "):(($2 + 0.5) / ", map.rows_per_unit, "):3 with image\n");
  }
  body += "unset multiplot\n";
  run_gnuplot(svg_and_png(name, int(width), int(height), body), folder);
}

}  // namespace deltasane::plot
