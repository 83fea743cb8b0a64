// Charts and heat maps, drawn by gnuplot (Debian: gnuplot-nox) as SVG and as PNG.
//
// Colours are those of Okabe and Ito, which people with any colour vision tell apart; beyond seven,
// curves differ in their dashes. Heat maps use viridis on a logarithmic scale.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace deltasane::plot {

struct Curve {
  std::string label;
  std::vector<double> x, y;  // what is not finite, or not positive on a log scale, is left out
};

struct Chart {
  std::string title, x_label, y_label;
  bool log_x = false, points = false;
  bool log_y = false;  // where the values span more than a decade
  std::vector<Curve> curves = {};
  std::vector<double> marks = {};  // positions on x that deserve a vertical line
  std::string mark_label = {};
  double y_low = 0, y_high = 0;  // of the axis; equal: from the numbers
};

// values: (row, column), the first row at the top.
struct HeatPanel {
  std::string title;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

struct HeatMap {
  std::string title, x_label, y_label, colour_label;
  double low = 0, high = 1;  // of the colours, common to all panels; both positive
  double rows_per_unit = 1, columns_per_unit = 1;  // what the axes count
  std::vector<HeatPanel> panels = {};
};

// Makes FOLDER/NAME.svg and FOLDER/NAME.png. Fails where gnuplot is not installed, and says how to
// get it.
void draw(const Chart& chart, const fs::path& folder, const std::string& name);
void draw(const HeatMap& map, const fs::path& folder, const std::string& name);

// The same rows and columns with fewer of them: the largest |value| of each block. Hot spots stay.
HeatPanel reduced(const HeatPanel& panel, int64_t most_rows, int64_t most_columns);

}  // namespace deltasane::plot
