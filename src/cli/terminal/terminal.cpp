#include "cli/terminal/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <streambuf>

#include "base/error.h"

namespace deltasane::cli {
namespace {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(size_t(written));
  }
  return true;
}

struct GuardedTerminal {
  int descriptor;
  TerminalText text{};
};

bool output_line_begun = false;  // on a terminal

ssize_t write_guarded(void* cookie, const char* bytes, size_t count) {
  auto& terminal = *static_cast<GuardedTerminal*>(cookie);
  if (terminal.descriptor == STDOUT_FILENO && count > 0) output_line_begun = bytes[count - 1] != '\n';
  return write_all(terminal.descriptor, terminal.text.feed({bytes, count})) ? ssize_t(count) : 0;
}

// std::cout and std::cerr were bound to the unguarded files when the program started.
class ToFile : public std::streambuf {
 public:
  explicit ToFile(FILE* file) : file_(file) {}

 protected:
  int_type overflow(int_type c) override {
    return traits_type::eq_int_type(c, traits_type::eof()) ? traits_type::not_eof(c)
                                                           : std::fputc(c, file_);
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    return std::streamsize(std::fwrite(bytes, 1, size_t(count), file_));
  }
  int sync() override { return std::fflush(file_); }

 private:
  FILE* file_;
};

void guard(FILE*& file, int descriptor, int buffering, std::ostream& stream) {
  if (::isatty(descriptor) == 0) return;
  // All three live as long as the program: streams are flushed after main has returned. A leak checker
  // does not see glibc's pointer to the first.
  static std::array<GuardedTerminal*, 3> terminals;
  auto* const terminal = terminals.at(size_t(descriptor)) = new GuardedTerminal{descriptor};
  FILE* const guarded = ::fopencookie(terminal, "w", {nullptr, write_guarded, nullptr, nullptr});
  if (guarded == nullptr) fail(Fault::device, "terminal: cannot open a stream to it");
  std::setvbuf(guarded, nullptr, buffering, BUFSIZ);
  file = guarded;
  stream.rdbuf(new ToFile(guarded));
}

}  // namespace

std::string TerminalText::feed(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  const std::string text = characters_.feed(bytes);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    const bool c1 =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (!c0 && !c1) {
      out += text[i];
      continue;
    }
    for (size_t end = i + (c1 ? 2 : 1);; ++i) {
      const auto shown = static_cast<unsigned char>(text[i]);
      ((out += "\\x") += digits[shown >> 4]) += digits[shown & 15];
      if (i + 1 == end) break;
    }
  }
  return out;
}

std::string terminal_text(std::string_view bytes) {
  Utf8Stream characters;
  std::string whole = characters.feed(bytes);
  whole += characters.finish();
  return TerminalText().feed(whole);
}

void guard_terminals() {
  guard(stdout, STDOUT_FILENO, _IOLBF, std::cout);
  guard(stderr, STDERR_FILENO, _IONBF, std::cerr);
}

void expect_output_written() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout)
    throw OutputError(cat("standard output: cannot write: ", std::strerror(errno)));
}

void end_output_line() {
  std::cout.flush();
  std::fflush(stdout);
  if (output_line_begun && ::isatty(STDERR_FILENO) != 0) write_all(STDOUT_FILENO, "\n");
  output_line_begun = false;
}

int terminal_columns(int descriptor) {
  winsize found{};
  return ::ioctl(descriptor, TIOCGWINSZ, &found) == 0 && found.ws_col > 0 ? found.ws_col : 80;
}

bool output_reader_has_gone() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

void send_control(FILE* to, std::string_view sequence) {
  std::fflush(to);
  write_all(to == stderr ? STDERR_FILENO : STDOUT_FILENO, sequence);
}

void clear_line(FILE* to) {
  send_control(to, "\r\x1b[K");
  if (to == stdout) output_line_begun = false;
}
void move_up(FILE* to, int lines) { send_control(to, cat("\x1b[", lines, "A")); }
void set_letters(FILE* to, Letters letters) {
  send_control(to, letters == Letters::dimmed ? "\x1b[2m" : "\x1b[0m");
}

}  // namespace deltasane::cli
