// What reaches a terminal. Names, metadata and generated text come from files and models, and a
// terminal obeys control characters: they are shown as \xHH. A pipe or a file gets all bytes as they
// are.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/utf8_stream.h"

namespace deltasane::cli {

// Bytes in, text for a terminal out: whole characters (U+FFFD for what is none), and \xHH for each
// byte of a control character (U+0000 to U+001F but newline and tab, U+007F to U+009F).
class TerminalText {
 public:
  std::string feed(std::string_view bytes);

 private:
  Utf8Stream characters_;
};

std::string terminal_text(std::string_view bytes);  // of one whole text

// Of a value that holds text from a file: bytes that are no UTF-8 become U+FFFD.
template <class Json>
std::string json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace);
}

// From here on, stdout, stderr, std::cout and std::cerr go through TerminalText where they are a
// terminal. Called once, first in main.
void guard_terminals();

// What was printed could not be written: a full device, a reader that has gone away.
class OutputError : public Error {
 public:
  explicit OutputError(const std::string& message) : Error(Fault::file, message) {}
};
void expect_output_written();  // flushes standard output; throws OutputError

int terminal_columns(int descriptor);  // 80 where it is not known

// Whether nobody reads standard output any more, as after `deltasane ... | head -1`.
bool output_reader_has_gone();
inline constexpr int output_closed = 141;  // the exit code then: as shells have it for SIGPIPE

// Before a message on standard error: a terminal's line that standard output has begun is ended.
void end_output_line();

// The program's own control sequences, past the guard: to the beginning of a cleared line, up, or
// dimmed letters from here on.
void send_control(FILE* to, std::string_view sequence);
void clear_line(FILE* to);
void move_up(FILE* to, int lines);
enum class Letters { normal, dimmed };
void set_letters(FILE* to, Letters letters);

}  // namespace deltasane::cli
