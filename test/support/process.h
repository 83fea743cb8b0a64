// Runs another program to its end, with no input.
#pragma once

#include <string>
#include <vector>

namespace deltasane::test {

struct Outcome {
  int exit_code;       // 128 + n when signal n ended it
  std::string output;  // stdout and stderr
};

Outcome run(const std::vector<std::string>& words);

// The same, with a terminal as its output and its errors.
Outcome run_on_terminal(const std::vector<std::string>& words);

// Runs `count` processes of one job, on any number of processors. `launcher` is mpirun, or empty:
// then a shell starts them, and they connect over a local socket. The exit code is 0 or that of one
// process that failed.
Outcome run_job(const std::string& launcher, int count, const std::vector<std::string>& words);

}  // namespace deltasane::test
