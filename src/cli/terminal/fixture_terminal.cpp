#include "cli/terminal/fixture_terminal.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/timing.h"
#include "text/utf8.h"

namespace deltasane::test {
namespace {

constexpr double patience = 30;  // seconds

winsize size_of(int columns, int rows) {
  winsize size{};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  return size;
}

}  // namespace

TerminalProcess::TerminalProcess(const std::vector<std::string>& words, int columns, int rows)
    : TerminalProcess(
          [&] {
            std::vector<char*> arguments;
            for (const std::string& word : words)
              arguments.push_back(const_cast<char*>(word.c_str()));
            arguments.push_back(nullptr);
            ::execv(arguments[0], arguments.data());
            ::_exit(127);
          },
          columns, rows) {}

TerminalProcess::TerminalProcess(const std::function<void()>& program, int columns, int rows) {
  const winsize size = size_of(columns, rows);
  child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (child_ < 0) fail(Fault::device, "forkpty: ", std::strerror(errno));
  if (child_ > 0) return;
  ::setenv("TERM", "xterm-256color", 1);
  program();
  ::_exit(0);
}

TerminalProcess::~TerminalProcess() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  ::close(terminal_);
}

bool TerminalProcess::read_some(double seconds) {
  pollfd input{terminal_, POLLIN, 0};
  if (::poll(&input, 1, int(1000 * seconds)) <= 0) return false;
  std::array<char, 65536> block;
  const ssize_t got = ::read(terminal_, block.data(), block.size());
  if (got > 0) output_.append(block.data(), size_t(got));
  return got > 0;
}

void TerminalProcess::type(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd both{terminal_, POLLIN | POLLOUT, 0};
    if (::poll(&both, 1, int(1000 * patience)) <= 0)
      fail(Fault::device, "terminal: expected the program to read, found that it does not");
    if ((both.revents & POLLIN) != 0) read_some(0);
    if ((both.revents & POLLOUT) == 0) continue;
    const ssize_t written = ::write(terminal_, bytes.data(), std::min<size_t>(bytes.size(), 512));
    if (written > 0) bytes.remove_prefix(size_t(written));
    if (written < 0 && errno != EAGAIN && errno != EINTR)
      fail(Fault::device, "terminal: ", std::strerror(errno));
  }
}

std::string TerminalProcess::wait_for(std::string_view text) {
  const double until = seconds_now() + patience;
  const size_t from = found_;
  for (;;) {
    const size_t at = output_.find(text, from);
    if (at != output_.npos) {
      found_ = at + text.size();
      return output_.substr(from, found_ - from);
    }
    if (seconds_now() > until || (!read_some(1) && ::waitpid(child_, nullptr, WNOHANG) > 0))
      fail(Fault::device, "terminal: expected '", text, "', found '", output_.substr(from), "'");
  }
}

void TerminalProcess::resize(int columns, int rows) {
  const winsize size = size_of(columns, rows);
  ::ioctl(terminal_, TIOCSWINSZ, &size);
}

int TerminalProcess::wait_for_end() {
  const double until = seconds_now() + patience;
  int status = 0;
  for (;;) {
    read_some(0.05);
    if (::waitpid(child_, &status, WNOHANG) == child_) break;
    if (seconds_now() > until)
      fail(Fault::device, "terminal: expected the program to end, found that it runs");
  }
  while (read_some(0.05)) {
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> rows_shown(std::string_view bytes, int columns) {
  std::vector<std::vector<std::string>> screen(1);
  size_t row = 0, column = 0;
  const auto cell = [&]() -> std::string& {
    if (column == size_t(columns)) ++row, column = 0;
    if (screen.size() <= row) screen.resize(row + 1);
    if (screen[row].size() <= column) screen[row].resize(column + 1, " ");
    return screen[row][column];
  };
  for (size_t at = 0; at < bytes.size();) {
    const std::string_view rest = bytes.substr(at);
    if (rest.starts_with("\x1b[")) {
      size_t end = 2;
      while (end < rest.size() && (rest[end] < 0x40)) ++end;
      const std::string argument(rest.substr(2, end - 2));
      const size_t number =
          argument.empty() || argument[0] == '?' ? 1 : size_t(std::atoi(argument.c_str()));
      if (rest[end] == 'A') row -= std::min(row, number);
      if (rest[end] == 'C') column = std::min(column + number, size_t(columns) - 1);
      if (rest[end] == 'J' || rest[end] == 'K') {
        if (row < screen.size() && column < screen[row].size()) screen[row].resize(column);
        if (rest[end] == 'J' && row + 1 < screen.size()) screen.resize(row + 1);
      }
      at += end + 1;
      continue;
    }
    const size_t length = utf8_step(rest).length;
    if (rest[0] == '\r')
      column = 0;
    else if (rest[0] == '\n')
      ++row;
    else
      cell() = rest.substr(0, length), ++column;
    if (screen.size() <= row) screen.resize(row + 1);
    at += length;
  }
  std::vector<std::string> rows;
  for (const auto& cells : screen) {
    std::string text;
    for (const std::string& one : cells) text += one;
    while (text.ends_with(' ')) text.pop_back();
    rows.push_back(text);
  }
  return rows;
}

}  // namespace deltasane::test
