// Lines of CSV.
#pragma once

#include <string>
#include <vector>

namespace deltasane::eval {

// Cells of a line; quotes hold commas, and a doubled quote is one.
std::vector<std::string> csv_cells(const std::string& line);
// The other way round, for one cell.
std::string csv_cell(const std::string& text);

// A score in percent; anything else fails.
double score_in(const std::string& cell, const std::string& where);

}  // namespace deltasane::eval
