// One HTML page with charts, in one file that needs no other: style, script and numbers are inside.
//
// Charts are drawn by the page: values under the pointer or by arrow keys, zoom by dragging, a switch
// between linear and logarithmic, curves picked by their names. The page follows the reader's dark or
// light colours, narrow screens and paper, and gives screen readers a title and the values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plot/figure.h"

namespace deltasane::cli {

struct PageChart {
  plot::Chart chart;
  std::string caption;
  size_t shown = size_t(-1);  // curves at first; others are picked from a list
};

// A column of text or of numbers; rows have a cell for each.
struct PageTable {
  struct Column {
    std::string title;
    bool is_text = false;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void add(const PageTable& table);
  void add(const PageChart& chart);
  void add_text(std::string_view text);
  void add_drawing(const std::string& svg, std::string_view title, std::string_view caption);
  std::string html() const;

 private:
  std::string title_, body_;
  std::string data_;  // JSON of the charts
  size_t charts_ = 0, drawings_ = 0;
};

}  // namespace deltasane::cli
