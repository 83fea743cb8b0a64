// Runs another program to its end, with no input.
#pragma once

#include <string>
#include <vector>

namespace deltasane::test {

struct Outcome {
  int exit_code;       // 128 + n when signal n ended it
  std::string output;  // what it wrote, errors too
};

Outcome run(const std::vector<std::string>& words);

}  // namespace deltasane::test
