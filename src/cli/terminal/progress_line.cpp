#include "cli/terminal/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/timing.h"
#include "cli/terminal/terminal.h"

namespace deltasane::cli {

ProgressLine::ProgressLine(First first)
    : terminal_(isatty(STDERR_FILENO) != 0), start_(seconds_now()) {
  if (first == First::after_a_pause) shown_ = start_;
}

bool ProgressLine::due() {
  const double now = seconds_now(), pause = terminal_ ? 0.2 : 30;
  if (now - shown_ < pause) return false;
  shown_ = now;
  return true;
}

void ProgressLine::show(const std::string& whole) {
  // A line that wraps could not be written over.
  const std::string text =
      terminal_ ? whole.substr(0, size_t(terminal_columns(STDERR_FILENO)) - 1) : whole;
  if (terminal_) clear_line(stderr);
  fmt::print(stderr, "{}{}", text, terminal_ ? "" : "\n");
  std::fflush(stderr);
  begun_ = true;
}

void ProgressLine::end() const {
  if (terminal_ && begun_) fmt::print(stderr, "\n");
}

double ProgressLine::seconds() const { return seconds_now() - start_; }

corpus::OpeningProgress opening_progress(ProgressLine& line) {
  return [&line](const std::string& file, uint64_t done, uint64_t all) {
    if (line.due()) line.show(fmt::format("{}: read {} of {} rows", file, done, all));
  };
}

}  // namespace deltasane::cli
