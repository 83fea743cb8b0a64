#include "support/process.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>

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
