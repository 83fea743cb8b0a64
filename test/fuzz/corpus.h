// The files of corpus/: where fuzzers begin, and what they have found.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/io/file.h"
#include "fuzz/targets.h"

namespace deltasane::fuzz {

struct CorpusFile {
  std::string name, bytes;
};

// In the order of their names.
inline std::vector<CorpusFile> corpus_of(const Target& target) {
  std::vector<CorpusFile> files;
  const fs::path folder = fs::path(DELTASANE_SOURCE) / "test/fuzz/corpus" / target.name;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back({entry.path().filename().string(), read_file(entry.path())});
  std::ranges::sort(files, {}, &CorpusFile::name);
  return files;
}

inline std::string test_name(const testing::TestParamInfo<Target>& info) {
  return std::string(info.param.name);
}

}  // namespace deltasane::fuzz
