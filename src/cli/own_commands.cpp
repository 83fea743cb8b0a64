#include "cli/own_commands.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/terminal.h"

extern char** environ;

namespace deltasane::cli {
namespace {

// Of a job of one process.
std::vector<char*> own_environment() {
  std::vector<char*> kept;
  for (char** one = environ; *one; ++one) {
    const std::string_view text = *one;
    bool of_launcher = false;
    for (const std::string_view prefix :
         {"OMPI_", "PMI_", "PMIX_", "MPI_LOCAL", "DELTASANE_RANK=", "DELTASANE_SIZE="})
      of_launcher = of_launcher || text.starts_with(prefix);
    if (!of_launcher) kept.push_back(*one);
  }
  kept.push_back(nullptr);
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

void run_own(const std::vector<std::string>& words, const fs::path& log) {
  std::vector<std::string> line{"deltasane"};
  line.insert(line.end(), words.begin(), words.end());
  std::string shown;
  for (const std::string& word : line) shown += (shown.empty() ? "" : " ") + word;
  const std::vector<char*> arguments = pointers(line), environment = own_environment();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {  // between fork and exec, what a signal handler may do
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    if (!log.empty()) {
      const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
      if (file < 0 || dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0) _exit(126);
    }
    execve("/proc/self/exe", arguments.data(), environment.data());
    _exit(127);
  }
  if (child < 0)
    fail(Fault::device, shown, ": expected to start it, found: ", std::strerror(errno));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string where = log.empty() ? "" : cat(" (see ", log.string(), ")");
  if (WIFSIGNALED(status))
    fail(Fault::device, shown, ": expected it to end, found it ended by signal ", WTERMSIG(status),
         where, "; run the same command again to resume");
  if (WEXITSTATUS(status) == interrupted_code)
    throw Interrupted(cat(shown, ": interrupted", where, "; run the same command again to resume"));
  if (WEXITSTATUS(status) == output_closed)
    throw OutputError(cat("standard output: expected a reader of ", shown, ", found none"));
  if (WEXITSTATUS(status) != 0)
    fail(Fault::argument, shown, ": expected exit code 0, found ", WEXITSTATUS(status), where,
         "; put right what it says and run the same command again to resume");
}

}  // namespace deltasane::cli
