// A stream of any length takes the memory of a short one. DELTASANE_SOAK_TOKENS sets how long it is.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <iostream>

#include "base/cat.h"
#include "faults/scenario.h"

namespace deltasane::test {
namespace {

constexpr int64_t short_stream = 16'384;

int64_t long_stream() {
  const char* const text = std::getenv("DELTASANE_SOAK_TOKENS");
  int64_t count = 10 * short_stream;
  if (text) std::from_chars(text, text + std::string_view(text).size(), count);
  return count;
}

// The most kilobytes that a program had at once; it must end well.
int64_t most_memory_of(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(::freopen("/dev/null", "w", stdout) && ::freopen("/dev/null", "w", stderr));
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = -1;
  rusage used{};
  EXPECT_EQ(::wait4(child, &status, 0, &used), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return used.ru_maxrss;
}

TEST(Soak, AStreamTakesNoMoreMemoryTheLongerItIs) {
  const FaultBench bench;
  const auto memory = [&](int64_t tokens) {
    const fs::path folder = bench.folder(cat("of_", tokens));
    return most_memory_of({DELTASANE_PROGRAM, "stream", bench.model(), "--corpus",
                           "math-chat:seed=1", "--tokens", cat(tokens), "--out", folder,
                           "--segment", "2048", "--threads", "1"});
  };
  const int64_t first = memory(short_stream), last = memory(long_stream());
  EXPECT_LT(last - first, 1024) << "kilobytes more";
  std::cout << short_stream << " tokens: " << first << " KB; " << long_stream() << ": " << last
            << " KB\n";
}

}  // namespace
}  // namespace deltasane::test
