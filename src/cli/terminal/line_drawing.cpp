#include "cli/terminal/line_drawing.h"

#include <wchar.h>

#include <algorithm>
#include <vector>

#include "base/cat.h"
#include "cli/terminal/terminal.h"
#include "text/utf8.h"

namespace deltasane::cli {
namespace {

struct Cell {
  std::string shown;
  int width;
};

Cell cell_of(std::string_view character) {
  if (character == "\t") return {"    ", 4};
  std::string shown = terminal_text(character);
  if (shown.size() != character.size()) {  // escaped, or replaced by U+FFFD
    const bool escaped = shown.starts_with('\\');
    return {shown, escaped ? int(shown.size()) : 1};
  }
  const int width = character.size() == 1 ? 1 : ::wcwidth(wchar_t(decode_utf8(character)));
  return {shown, width < 0 ? 1 : width};
}

struct Rows {
  std::vector<std::string> rows{""};
  int column = 0;
  size_t cursor_row = 0;
  int cursor_column = 0;

  void next_row() {
    rows.emplace_back();
    column = 0;
  }
  void add(const Cell& cell, int columns) {
    if (column + cell.width > columns) next_row();
    rows.back() += cell.shown;
    column += cell.width;
  }
};

Rows rows_of(std::string_view prompt, std::string_view text, size_t cursor, int columns) {
  Rows found;
  const auto add_all = [&](std::string_view some, bool has_cursor) {
    for (size_t at = 0; at <= some.size();) {
      if (has_cursor && at == cursor) {
        if (found.column >= columns) found.next_row();
        found.cursor_row = found.rows.size() - 1, found.cursor_column = found.column;
      }
      if (at == some.size()) break;
      const size_t length = utf8_step(some.substr(at)).length;
      if (some[at] == '\n')
        found.next_row();
      else
        found.add(cell_of(some.substr(at, length)), columns);
      at += length;
    }
  };
  add_all(prompt, false);
  add_all(text, true);
  return found;
}

std::string rows_up(size_t rows) { return rows > 0 ? cat("\x1b[", rows, "A") : std::string(); }

// From the cursor's row to a cleared screen below the first one.
std::string cleared(int row) { return rows_up(size_t(row)) + "\r\x1b[J"; }

std::string joined(const std::vector<std::string>& rows, size_t from, size_t to) {
  std::string all;
  for (size_t i = from; i < to; ++i) (all += i > from ? "\r\n" : "") += rows[i];
  return all;
}

}  // namespace

std::string LineDrawing::draw(std::string_view prompt, std::string_view text, size_t cursor,
                              TerminalSize size) {
  const Rows found = rows_of(prompt, text, cursor, std::max(size.columns, 8));
  const size_t height = size_t(std::max(size.rows - 1, 1)), all = found.rows.size();
  const size_t past = found.cursor_row + 1 > height ? found.cursor_row + 1 - height : 0;
  const size_t first = all <= height ? 0 : std::min(past, all - height);
  const size_t last = std::min(first + height, all);
  std::string out = cleared(row_) + joined(found.rows, first, last);
  out += rows_up(last - 1 - found.cursor_row) + "\r";
  if (found.cursor_column > 0) out += cat("\x1b[", found.cursor_column, "C");
  row_ = int(found.cursor_row - first);
  return out;
}

std::string LineDrawing::finish(std::string_view prompt, std::string_view text, TerminalSize size) {
  const Rows found = rows_of(prompt, text, text.size(), std::max(size.columns, 8));
  const std::string out = cleared(row_) + joined(found.rows, 0, found.rows.size()) + "\r\n";
  row_ = 0;
  return out;
}

}  // namespace deltasane::cli
