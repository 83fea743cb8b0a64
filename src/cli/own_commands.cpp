#include "cli/own_commands.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>

#include "base/error.h"

extern char** environ;

namespace deltasane::cli {

void run_own(const std::vector<std::string>& words) {
  std::string line = "deltasane";
  std::vector<char*> arguments{line.data()};
  std::vector<std::string> copies = words;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::string shown = "deltasane";
  for (const std::string& word : words) shown += " " + word;
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
    fail(Fault::device, shown, ": expected to start it, found no process to spare");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    fail(Fault::device, shown, ": expected it to end, found it ended by signal ", WTERMSIG(status),
         "; run the same again to go on");
  if (WEXITSTATUS(status) != 0)
    fail(Fault::argument, shown, ": expected exit code 0, found ", WEXITSTATUS(status),
         "; put right what it says and run the same again to go on");
}

}  // namespace deltasane::cli
