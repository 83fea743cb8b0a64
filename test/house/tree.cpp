#include "house/tree.h"

#include <algorithm>
#include <set>

#include "base/io/file.h"
#include "house/text.h"

namespace deltasane::house {
namespace {

template <class Wanted>
std::vector<Source> read_below(const fs::path& root, const std::string& folder, Wanted&& wanted) {
  std::vector<Source> found;
  for (const std::string& path : files_below(root, folder))
    if (wanted(fs::path(path))) found.push_back({path, read_file(root / path)});
  return found;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::string> files_below(const fs::path& root, const std::string& folder) {
  std::vector<std::string> found;
  if (!fs::exists(root / folder)) return found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder))
    if (entry.is_regular_file()) found.push_back(fs::relative(entry.path(), root).generic_string());
  std::ranges::sort(found);
  return found;
}

std::vector<Source> sources(const fs::path& root, const std::string& folder) {
  static const std::set<std::string> extensions{".h", ".cpp", ".cu", ".cuh", ".hpp", ".cc"};
  return read_below(root, folder, [](const fs::path& path) {
    return extensions.contains(path.extension().string());
  });
}

std::vector<Source> all_sources(const fs::path& root) {
  std::vector<Source> found;
  for (const char* folder : {"src", "test", "bench"})
    for (Source& source : sources(root, folder)) found.push_back(std::move(source));
  return found;
}

std::vector<Source> cmake_lists(const fs::path& root, const std::string& folder) {
  return read_below(root, folder,
                    [](const fs::path& path) { return path.filename() == "CMakeLists.txt"; });
}

bool is_test(std::string_view path) {
  return matches(path, "*_test.cpp") || matches(path, "*_test.cu") || file_name(path) == "test.cpp";
}

bool is_test_or_fixture(std::string_view path) {
  const std::string_view name = file_name(path);
  return is_test(path) || name.starts_with("fixture") || matches(name, "*_fixture*");
}

}  // namespace deltasane::house
