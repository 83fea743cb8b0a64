// A parser's cursor over one line of a vocabulary file, or one token of a list. Malformed input is
// a Fault::file that names the file, the line and the column.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

namespace deltasane {

// "vocab.txt: line 7"
struct InputLocation {
  std::string_view name, kind;
  int64_t number;

  template <class... Part>
  [[noreturn]] void reject(const Part&... part) const {
    fail(Fault::file, name, ": ", kind, " ", number, ": ", part...);
  }
};

class Cursor {
 public:
  Cursor(std::string_view text, InputLocation location) : text_(text), location_(location) {}

  bool done() const { return next_ == text_.size(); }
  bool at(char c) const { return !done() && text_[next_] == c; }
  std::string_view rest() const { return text_.substr(next_); }
  const InputLocation& location() const { return location_; }

  char take(std::string_view what);                       // the next byte; fails at the end
  std::string_view take_bytes(size_t count);              // at most rest().size()
  void expect(char c, std::string_view what);             // fails on any other byte
  int64_t decimal(int64_t limit, std::string_view what);  // no sign, no leading zero
  uint32_t hexadecimal(int digits);                       // exactly this many digits

  // "name: line 7: column 3: expected what, found 'abc'"
  [[noreturn]] void reject(std::string_view what) const;

 private:
  std::string_view text_;
  size_t next_ = 0;
  InputLocation location_;
};

}  // namespace deltasane
