// The source tree as the checks see it: paths relative to its root, and texts.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace deltasane::house {

struct Source {
  std::string path;  // "src/base/io/file.h"
  std::string text;
};

// The C++ and CUDA sources below root/folder, sorted by path; none without the folder.
std::vector<Source> sources(const std::filesystem::path& root, const std::string& folder);

// The sources of src, test and bench.
std::vector<Source> all_sources(const std::filesystem::path& root);

// The CMakeLists.txt files below root/folder, sorted by path.
std::vector<Source> cmake_lists(const std::filesystem::path& root, const std::string& folder);

// The paths of all files below root/folder, sorted.
std::vector<std::string> files_below(const std::filesystem::path& root, const std::string& folder);

bool is_test(std::string_view path);             // x_test.cpp, x_test.cu, test.cpp
bool is_test_or_fixture(std::string_view path);  // also x_fixture.h, fixture_x.cpp, fixture.h

}  // namespace deltasane::house
