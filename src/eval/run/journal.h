// A file of lines that only grows and that a kill at any moment leaves readable.
//
// A line is written by one call, so at most the last one can be cut off; it is taken away when the
// file is opened again. One process at a time: a second one that opens the file fails.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"

namespace deltasane::eval {

class Journal {
 public:
  explicit Journal(const fs::path& path);  // its folder is made where it is missing
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void append(std::string_view line);  // without its newline
  void flush();                        // on to the disk

 private:
  fs::path path_;
  int descriptor_ = -1;
};

// The whole lines of a journal, without the rest of one that was cut off.
std::vector<std::string> read_journal(const fs::path& path);

}  // namespace deltasane::eval
