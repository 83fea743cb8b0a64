// A program on a terminal of its own, with somebody who types and reads: what a person sees there.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::test {

class TerminalProcess {
 public:
  TerminalProcess(const std::vector<std::string>& words, int columns, int rows = 24);
  TerminalProcess(const std::function<void()>& program, int columns, int rows = 24);
  ~TerminalProcess();  // ends the program, if it still runs
  TerminalProcess(const TerminalProcess&) = delete;
  TerminalProcess& operator=(const TerminalProcess&) = delete;

  void type(std::string_view bytes);  // all of them, also where the program reads them late
  // Reads what the program writes until `text` is there, after all that earlier calls found. Returns
  // what was read; fails after half a minute.
  std::string wait_for(std::string_view text);
  void resize(int columns, int rows = 24);
  int wait_for_end();  // its exit code; 128 + n when signal n ended it
  const std::string& output() const { return output_; }

 private:
  bool read_some(double seconds);

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string output_;
  size_t found_ = 0;  // bytes of the output before what is waited for
};

// What a terminal of so many columns shows after these bytes: its rows, without space at their ends.
// Knows the control sequences that the program uses.
std::vector<std::string> rows_shown(std::string_view bytes, int columns);

}  // namespace deltasane::test
