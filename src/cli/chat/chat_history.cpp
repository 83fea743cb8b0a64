#include "cli/chat/chat_history.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/io/folder.h"

namespace deltasane::cli {
namespace {

constexpr size_t most_entries = 1000;

std::string line_of(const std::string& entry) {
  return nlohmann::json(entry).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::vector<std::string> read_entries(const fs::path& path) {
  std::vector<std::string> entries;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const auto value = nlohmann::json::parse(line, nullptr, false);
    if (value.is_string()) entries.push_back(value.get<std::string>());
  }
  return entries;
}

void append(const fs::path& path, const std::string& line) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const bool written = file >= 0 && ::write(file, line.data(), line.size()) == ssize_t(line.size());
  const int problem = errno;
  if (file >= 0) ::close(file);
  if (!written)
    fail(Fault::file, path, ": cannot add a line: ", std::strerror(problem));
}

}  // namespace

fs::path chat_history_path() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "deltasane/chat_history";
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return fs::path(home) / ".local/state/deltasane/chat_history";
}

ChatHistory::ChatHistory(fs::path path) : path_(std::move(path)) {
  if (path_.empty()) return;
  try {
    if (path_.has_parent_path()) create_folder(path_.parent_path());
    append(path_, "");  // can it be written? One that is made here is its owner's alone
    entries_ = read_entries(path_);
    if (entries_.size() <= 2 * most_entries) return;
    entries_.erase(entries_.begin(), entries_.end() - int64_t(most_entries));
    std::string kept;
    for (const std::string& entry : entries_) kept += line_of(entry);
    replace_file(path_, kept);
  } catch (const std::exception& error) {
    fmt::print(stderr, "deltasane: {}; this conversation's lines are not kept\n", error.what());
    path_.clear();
  }
}

void ChatHistory::add(const std::string& entry) {
  if (!entries_.empty() && entries_.back() == entry) return;
  entries_.push_back(entry);
  if (path_.empty()) return;
  try {
    append(path_, line_of(entry));
  } catch (const Error& error) {
    fmt::print(stderr, "deltasane: {}; further lines are not kept\n", error.what());
    path_.clear();
  }
}

}  // namespace deltasane::cli
