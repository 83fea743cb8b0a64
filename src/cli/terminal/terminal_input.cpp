#include "cli/terminal/terminal_input.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "cli/terminal/interrupt.h"
#include "cli/terminal/line_drawing.h"
#include "cli/terminal/terminal.h"

namespace deltasane::cli {
namespace {

constexpr std::string_view paste_marks_on = "\x1b[?2004h", paste_marks_off = "\x1b[?2004l";

volatile std::sig_atomic_t terminal_changed = 0;  // its size, or this program was suspended
termios mode_before;                              // for a signal that ends the program

extern "C" void note_change(int) {
  terminal_changed = 1;
  wake_waiting();
}

extern "C" void restore_and_end(int number) {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &mode_before);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

TerminalSize size_now() {
  winsize found{};
  TerminalSize size;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0) return size;
  if (found.ws_col > 0) size.columns = found.ws_col;
  if (found.ws_row > 0) size.rows = found.ws_row;
  return size;
}

bool has_more() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

}  // namespace

bool TerminalInput::is_possible() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && kind != nullptr &&
         std::string_view(kind) != "dumb";
}

TerminalInput::TerminalInput() {
  std::setlocale(LC_CTYPE, "C.UTF-8");  // for the widths of characters
  if (::tcgetattr(STDIN_FILENO, &before_) != 0)
    fail(Fault::device, "terminal: cannot read its mode");
  mode_before = before_;
  for (const int number : {SIGTERM, SIGHUP, SIGQUIT}) std::signal(number, restore_and_end);
  for (const int number : {SIGWINCH, SIGCONT}) std::signal(number, note_change);
  enter_mode();
}

TerminalInput::~TerminalInput() { ::tcsetattr(STDIN_FILENO, TCSANOW, &before_); }

void TerminalInput::enter_mode() {
  termios mode = before_;
  mode.c_lflag &= ~tcflag_t(ICANON | ECHO | IEXTEN);
  mode.c_iflag &= ~tcflag_t(IXON | ISTRIP);
  mode.c_iflag |= ICRNL;
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &mode);
}

bool TerminalInput::fill() {
  if (!wait_for_input(STDIN_FILENO)) return false;
  std::array<char, 4096> block;
  const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
  if (got > 0) bytes_.append(block.data(), size_t(got));
  is_over_ = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
  return got > 0;
}

TerminalInput::Line TerminalInput::read(const std::string& prompt) {
  LineEditor editor(history);
  editor.completions = completions;
  LineDrawing drawing;
  terminal_changed = 0;
  send_control(stdout, paste_marks_on);
  const auto end = [&](Line::End how) -> Line {
    send_control(stdout, drawing.finish(prompt, editor.text(), size_now()));
    send_control(stdout, paste_marks_off);
    return {how, editor.text()};
  };
  const auto draw = [&] {
    send_control(stdout, drawing.draw(prompt, editor.text(), editor.cursor(), size_now()));
  };
  for (;;) {
    size_t used = 0;
    auto outcome = LineEditor::Outcome::editing;
    while (used < bytes_.size() && outcome == LineEditor::Outcome::editing)
      outcome = editor.feed(bytes_[used++]);
    bytes_.erase(0, used);
    if (outcome == LineEditor::Outcome::entered) return end(Line::End::entered);
    if (outcome == LineEditor::Outcome::ended) return end(Line::End::ended);
    if (outcome == LineEditor::Outcome::cleared) {
      send_control(stdout, "\x1b[H\x1b[2J");
      drawing.forget();
    }
    if (bytes_.empty() && !has_more()) draw();
    while (bytes_.empty() && !fill()) {
      if (is_over_) return end(Line::End::ended);
      if (interrupts() > 0) return end(Line::End::interrupted);
      if (terminal_changed == 0) continue;
      terminal_changed = 0;
      enter_mode();
      draw();
    }
  }
}

}  // namespace deltasane::cli
