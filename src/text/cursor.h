// Reads one line of a vocabulary file, or one token of a list, from left to right. What it
// refuses is a Fault::file that names the file, the line and the column.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

namespace deltasane {

// "vocab.txt: line 7"
struct Place {
  std::string_view name, kind;
  int64_t number;

  template <class... Part>
  [[noreturn]] void refuse(const Part&... part) const {
    fail(Fault::file, name, ": ", kind, " ", number, ": ", part...);
  }
};

class Cursor {
 public:
  Cursor(std::string_view text, Place place) : text_(text), place_(place) {}

  bool done() const { return next_ == text_.size(); }
  bool at(char c) const { return !done() && text_[next_] == c; }
  std::string_view rest() const { return text_.substr(next_); }
  const Place& place() const { return place_; }

  char take(std::string_view what);                       // the next byte, or "expected what"
  std::string_view take_bytes(size_t count);              // no more than are left
  void expect(char c, std::string_view what);             // this byte and no other
  int64_t decimal(int64_t limit, std::string_view what);  // no sign, no leading zero
  uint32_t hexadecimal(int digits);                       // exactly so many digits

  // "name: line 7: column 3: expected what, found 'abc'"
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  std::string_view text_;
  size_t next_ = 0;
  Place place_;
};

}  // namespace deltasane
