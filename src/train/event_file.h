// Numbers by step for TensorBoard: the file format it reads, and nothing else of it.
//
// A file is a row of records: a length, a checksum of the length, the bytes, a checksum of them.
// The bytes are an Event in protocol-buffer notation. A folder may hold several files; a run that
// was resumed adds one.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "base/io/file.h"

namespace deltasane::train {

class EventFile {
 public:
  // A file of its own in `folder`, named after the time (seconds since 1970).
  EventFile(const fs::path& folder, double now);

  void add(double now, int64_t step, std::string_view name, float value);

 private:
  void write(const std::string& event);

  fs::path path_;
  std::ofstream file_;
};

}  // namespace deltasane::train
