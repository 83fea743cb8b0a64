// Lines typed at a terminal, with editing and history.
//
// While it lives, the terminal hands over every byte at once and echoes nothing: the kernel's own
// lines hold 4095 bytes and lose the rest of a long paste. What is typed or pasted while nobody
// reads waits in the kernel, or in the terminal's program when that is full, and comes with the next
// line.
//
// Rejected: libedit. It knows no bracketed paste, returns to the kernel's lines after each of its
// own, and a build without it would need this file all the same.
#pragma once

#include <termios.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/line_editor.h"

namespace deltasane::cli {

class TerminalInput {
 public:
  TerminalInput();
  ~TerminalInput();
  TerminalInput(const TerminalInput&) = delete;
  TerminalInput& operator=(const TerminalInput&) = delete;

  // Whether standard input and output are a terminal that can be drawn on.
  static bool is_possible();

  struct Line {
    enum class End { entered, interrupted, ended } end;  // Enter, Ctrl-C, Ctrl-D
    std::string text;
  };
  Line read(const std::string& prompt);

  std::vector<std::string> history{}, completions{};

 private:
  bool fill();  // waits for bytes; false: a signal came, or the terminal has gone
  void enter_mode();

  termios before_{};
  std::string bytes_;  // read, and not yet used
  bool is_over_ = false;
};

}  // namespace deltasane::cli
