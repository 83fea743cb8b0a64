#include "support/process.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "support/scratch.h"

namespace deltasane::test {

namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

constexpr const char* start_all = R"(
export DELTASANE_SIZE=$1 DELTASANE_ADDRESS=$2
shift 2
all= rank=0 code=0
while [ $rank -lt $DELTASANE_SIZE ]; do
  DELTASANE_RANK=$rank "$@" &
  all="$all $!" rank=$((rank + 1))
done
for one in $all; do wait $one || code=$?; done
exit $code
)";

Outcome run_by_shell(int count, const std::vector<std::string>& words) {
  const Scratch scratch;
  std::vector<std::string> all{
      "sh", "-c", start_all, "sh", std::to_string(count), scratch.path() / "group"};
  all.insert(all.end(), words.begin(), words.end());
  return run(all);
}

}  // namespace

Outcome run(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += quoted(word) + " ";
  FILE* pipe = ::popen((line + "</dev/null 2>&1").c_str(), "r");
  if (pipe == nullptr)
    fail(Fault::file, line, ": expected to start it, found that no process can be created");
  Outcome outcome{};
  std::array<char, 4096> block;
  for (size_t got; (got = std::fread(block.data(), 1, block.size(), pipe)) > 0;)
    outcome.output.append(block.data(), got);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome run_on_terminal(const std::vector<std::string>& words) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) fail(Fault::device, "forkpty: ", std::strerror(errno));
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  Outcome outcome{};
  std::array<char, 4096> block;
  for (ssize_t got; (got = ::read(terminal, block.data(), block.size())) > 0 || (got < 0 && errno == EINTR);)
    outcome.output.append(block.data(), size_t(std::max<ssize_t>(got, 0)));
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

Outcome run_job(const std::string& launcher, int count, const std::vector<std::string>& words) {
  if (launcher.empty()) return run_by_shell(count, words);
  std::vector<std::string> all{"env",
                               "OMPI_ALLOW_RUN_AS_ROOT=1",
                               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                               "OMPI_MCA_rmaps_base_oversubscribe=1",
                               launcher,
                               "-n",
                               std::to_string(count)};
  all.insert(all.end(), words.begin(), words.end());
  return run(all);
}

}  // namespace deltasane::test
