// For tests: rows of reference verdicts, read from JSON lines.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "answers/answers.h"

namespace deltasane::answers::test {

struct Row {
  Pair pair;
  bool expected = false;
  std::string kind;
};

// Rows without a gold or without a verdict (they test parsing alone) are left out.
std::vector<Row> read_rows(const std::filesystem::path& path);

}  // namespace deltasane::answers::test
