// Draws a line that is being edited, on as many rows as it needs. Of a text that is higher than the
// terminal only the rows around the cursor are drawn.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace deltasane::cli {

struct TerminalSize {
  int columns = 80, rows = 24;
};

class LineDrawing {
 public:
  // What to send to a terminal whose cursor is where the last drawing left it.
  std::string draw(std::string_view prompt, std::string_view text, size_t cursor,
                   TerminalSize size);
  // The whole text, whatever its height, and the cursor below it.
  std::string finish(std::string_view prompt, std::string_view text, TerminalSize size);
  void forget() { row_ = 0; }  // the cursor is at the beginning of an empty row

 private:
  int row_ = 0;  // of the cursor, from the first row drawn
};

}  // namespace deltasane::cli
