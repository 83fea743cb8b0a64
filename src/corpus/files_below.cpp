#include "corpus/files_below.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"

namespace deltasane::corpus {

std::vector<fs::path> files_below(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    fail(Fault::file, path, ": expected a file or a folder of them, found nothing");
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  fs::recursive_directory_iterator entry(path, error);
  for (; !error && entry != fs::end(entry); entry.increment(error)) {
    std::error_code broken;
    if (entry->path().filename().string().starts_with('.')) {
      if (entry->is_directory(broken)) entry.disable_recursion_pending();
    } else if (entry->is_regular_file(broken)) {
      files.push_back(entry->path());
    }
  }
  if (error) fail(Fault::file, path, ": cannot read the folder: ", error.message());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.generic_string(); });
  return files;
}

}  // namespace deltasane::corpus
