#include "house/tree.h"

#include <algorithm>

#include "base/file.h"

namespace deltasane::house {

std::vector<Source> sources(const std::filesystem::path& root, const std::string& folder) {
  std::vector<Source> found;
  if (!fs::exists(root / folder)) return found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension().string();
    const bool source = extension == ".h" || extension == ".cpp" || extension == ".cu" ||
                        extension == ".cuh" || extension == ".hpp" || extension == ".cc";
    if (source && entry.is_regular_file())
      found.push_back({fs::relative(entry.path(), root).generic_string(), read_file(entry.path())});
  }
  std::ranges::sort(found, {}, &Source::path);
  return found;
}

std::vector<Source> all_sources(const std::filesystem::path& root) {
  std::vector<Source> found;
  for (const char* folder : {"src", "test", "bench"})
    for (Source& source : sources(root, folder)) found.push_back(std::move(source));
  return found;
}

}  // namespace deltasane::house
