// A file of JSON objects, one a line, each with a checksum (base/io/seal.h). Lines are only added. A
// line that a crash cut off at the end is dropped when the file is opened; a damaged one elsewhere
// is an error.
#pragma once

#include <functional>
#include <string>

#include "base/io/file.h"
#include "serve/wire/body.h"

namespace deltasane::serve {

class Journal {
 public:
  // Hands out all that is in the file.
  Journal(const fs::path& path, const std::function<void(const Json&)>& take);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void add(const Json& object);  // durable when it returns
  // Replaces the file by these lines.
  void rewrite(const std::vector<Json>& objects);
  size_t lines() const { return lines_; }

 private:
  void open();

  fs::path path_;
  int descriptor_ = -1;
  size_t lines_ = 0;
  uint64_t size_ = 0;
};

}  // namespace deltasane::serve
