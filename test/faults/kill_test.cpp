// Kills training, streams and evaluations at any moment (SIGKILL), several times in a row or once. The
// next start continues, ends with the bytes of a run that never stopped, and leaves nothing behind.
// DELTASANE_KILL_ROUNDS asks for more kills of each than every test run needs.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "base/cat.h"
#include "base/io/file.h"
#include "base/random.h"
#include "faults/scenario.h"

namespace deltasane::test {
namespace {

pid_t start(const std::vector<std::string>& words, const fs::path& said) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (!std::freopen(said.c_str(), "w", stdout) || ::dup2(1, 2) < 0) ::_exit(126);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

class Kills : public testing::TestWithParam<const char*> {};

TEST_P(Kills, LoseNothingThatWasSaved) {
  const FaultBench bench;
  const fs::path folder = bench.folder("run"), said = bench.folder("said");
  const std::vector<Scenario> all = bench.scenarios(folder);
  const Scenario& scenario = *std::ranges::find(all, std::string(GetParam()), &Scenario::name);
  bench.prepare(GetParam(), folder);
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(run(scenario.first).exit_code, 0);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  const auto whole = files_below(folder);
  const char* const asked = std::getenv("DELTASANE_KILL_ROUNDS");
  const int rounds = asked ? std::atoi(asked) : 8;
  Random random(asked ? 2 : 1);
  int killed = 0;
  for (int attempt = 0; killed < rounds && attempt < 20 * rounds; ++attempt) {
    if (random.below(3) == 0) bench.prepare(GetParam(), folder);
    const bool has_run = fs::exists(folder / "run") && !fs::is_empty(folder / "run");
    const pid_t child = start(has_run ? scenario.again : scenario.first, said);
    ASSERT_GT(child, 0);
    ::usleep(useconds_t(random.uniform(0, 1.1 * seconds) * 1e6));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    killed += WIFSIGNALED(status);
    if (random.below(2) == 0) continue;  // and once more
    Outcome next = run(scenario.again);
    if (next.exit_code != 0) next = run(scenario.first);  // nothing to resume from
    ASSERT_EQ(next.exit_code, 0) << "after " << killed << " kills: " << next.output;
    const auto end = files_below(folder);
    for (const auto& [name, bytes] : whole)
      ASSERT_TRUE(end.contains(name) && end.at(name) == bytes)
          << name << " after " << killed << " kills";
    ASSERT_EQ(litter_below(folder), std::vector<std::string>());
    bench.prepare(GetParam(), folder);
  }
  EXPECT_EQ(killed, rounds);
}

INSTANTIATE_TEST_SUITE_P(Commands, Kills, testing::Values("train", "stream", "eval"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace deltasane::test
