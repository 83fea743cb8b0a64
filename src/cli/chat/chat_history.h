// What was typed in earlier conversations: a file with one JSON string a line, the oldest first,
// that only its owner may read. Lines are appended, so that several conversations share it.
#pragma once

#include <string>
#include <vector>

#include "base/io/file.h"

namespace deltasane::cli {

// In $XDG_STATE_HOME or ~/.local/state; empty where neither is known.
fs::path chat_history_path();

class ChatHistory {
 public:
  explicit ChatHistory(fs::path path);  // empty: nothing is kept
  const std::vector<std::string>& entries() const { return entries_; }
  void add(const std::string& entry);  // a file that cannot be written is reported once

 private:
  fs::path path_;
  std::vector<std::string> entries_;
};

}  // namespace deltasane::cli
