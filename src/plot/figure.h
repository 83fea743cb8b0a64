// Charts and heat maps, drawn by gnuplot (Debian: gnuplot-nox) as SVG and as PNG.
//
// The colours are the colour-blind safe palette of Okabe and Ito; beyond seven, curves differ in
// their dashes. Heat maps use viridis on a logarithmic scale, white to dark red on a linear one.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/io/file.h"

namespace deltasane::plot {

struct Curve {
  std::string label;         // empty: not named below the chart
  std::vector<double> x, y;  // what is not finite, or not positive on a log scale, is left out
  int colour = -1;           // a number of the palette; -1: the curve's own number
  bool dashed = false, pale = false;
  double width = 2;
};

struct Chart {
  std::string title, x_label, y_label;
  bool log_x = false, points = false;
  bool log_y = false;  // where the values span more than a decade
  std::vector<Curve> curves = {};
  std::vector<double> marks = {};  // positions of vertical lines on the x axis
  std::string mark_label = {};
  std::vector<std::pair<double, double>> shades =
      {};  // ranges of the x axis with a grey background
  std::string shade_label = {};
  double x_low = 0, x_high = 0;  // as for y
  double y_low = 0, y_high = 0;  // of the axis; equal: from the numbers
};

// Several charts as one figure, row by row. A chart without curves leaves its place empty.
struct ChartGrid {
  std::string title;
  int64_t columns = 1;
  int panel_width = 900, panel_height = 380;  // pixels
  std::vector<Chart> charts = {};
};

// values: (row, column), the first row at the top. NaN is left blank.
struct HeatPanel {
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

struct HeatMap {
  // Rows that belong together, where the axis cannot count them: named beside their middle.
  struct Band {
    std::string label;
    double from, to;  // in rows
  };
  // A thin line that keeps blocks apart.
  struct Line {
    double column, row, to_column, to_row;
  };

  std::string title, x_label, y_label, colour_label;
  double low = 0, high = 1;  // of the colours, common to all panels; both positive if logarithmic
  bool linear = false;
  int64_t columns = 4;  // panels beside each other at most
  int panel_width = 300, panel_height = 300;
  double rows_per_unit = 1, columns_per_unit = 1;  // what the axes count
  std::vector<Band> bands = {};                    // none: the axis has numbers
  std::vector<Line> lines = {};
  std::vector<HeatPanel> panels = {};
};

// Writes FOLDER/NAME.svg and FOLDER/NAME.png. Fails where gnuplot is not installed; the message
// says how to install it.
void draw(const Chart& chart, const fs::path& folder, const std::string& name);
void draw(const ChartGrid& grid, const fs::path& folder, const std::string& name);
void draw(const HeatMap& map, const fs::path& folder, const std::string& name);

// Max pooling of |value| down to at most this many rows and columns, so that hot spots remain.
HeatPanel downsampled(const HeatPanel& panel, int64_t max_rows, int64_t max_columns);

}  // namespace deltasane::plot
