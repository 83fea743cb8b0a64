// A file of lines that only grows and that a kill at any moment leaves readable. Each line is a JSON
// object with a checksum of its own (base/io/seal.h).
//
// A line is written by one call, so at most the last one can be cut off; it is taken away when the
// file is opened again. The writer holds the folder (base/io/folder_lock.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/io/file.h"

namespace deltasane::eval {

class Journal {
 public:
  explicit Journal(const fs::path& path);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void append(std::string_view object);  // on one line, without its end and its checksum
  void flush();                          // on to the disk

 private:
  fs::path path_;
  int descriptor_ = -1;
};

// The objects of a journal, without the rest of a line that was cut off. Fails, naming the line, where
// one does not match its checksum. `absent`: a journal of a version that had none.
enum class Seals { required, absent };
std::vector<std::string> read_journal(const fs::path& path, Seals seals = Seals::required);

// Puts the checksums into a journal that has none.
void seal_journal(const fs::path& path);

}  // namespace deltasane::eval
