// The source tree as the checks see it: paths relative to its root, and texts.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace deltasane::house {

struct Source {
  std::string path;  // "src/base/file.h"
  std::string text;
};

// The C++ and CUDA sources below root/folder, in the order of their paths; none without the folder.
std::vector<Source> sources(const std::filesystem::path& root, const std::string& folder);

// All that the house rules speak about: src, test and bench.
std::vector<Source> all_sources(const std::filesystem::path& root);

}  // namespace deltasane::house
