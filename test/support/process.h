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

// `count` processes of one job, which need no processor each; `launcher` is mpirun, or nothing:
// then a shell starts them, and they find each other over a local socket. Of several exit codes
// other than 0 one is told.
Outcome run_job(const std::string& launcher, int count, const std::vector<std::string>& words);

}  // namespace deltasane::test
