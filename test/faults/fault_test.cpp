// Fails one system call or allocation after the other. After each fault old files are as they were or
// new ones are whole, the exit code says that something went wrong unless all was done, and the next
// start ends as if nothing had happened, with nothing left behind.
//
// Every test run takes some calls of each kind, of allocations those after the flags of all commands
// are described. DELTASANE_FAULTS=N takes N of each, once and from there on, DELTASANE_FAULTS=work all
// of these, and DELTASANE_FAULTS=all every allocation of the process, too, which takes hours.
// DELTASANE_FAULTS_PART=K/N takes the K-th of N parts of these, for several processes or machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "answers/answers.h"
#include "base/cat.h"
#include "base/io/file.h"
#include "base/random.h"
#include "faults/scenario.h"

namespace deltasane::test {
namespace {

struct Fault {
  std::string call;
  int reason;
};
const Fault faults[] = {{"open", EMFILE},  {"write", ENOSPC}, {"fsync", EIO},
                        {"rename", EIO},   {"mkdir", ENOSPC}, {"unlink", EROFS},
                        {"truncate", EIO}, {"map", ENOMEM},   {"allocate", ENOMEM}};

bool is_asked(std::string_view word) {
  const char* const asked = std::getenv("DELTASANE_FAULTS");
  return asked && asked == word;
}

// How many calls of each kind are tried; 0: those of every test run.
int64_t wanted_calls() {
  if (is_asked("all") || is_asked("work")) return INT64_MAX;
  const char* const asked = std::getenv("DELTASANE_FAULTS");
  return asked ? std::atoll(asked) : 0;
}

// Part K of N, 1 <= K <= N, of what is tried.
struct Part {
  int64_t number = 1, of = 1;
};

Part wanted_part() {
  const char* const asked = std::getenv("DELTASANE_FAULTS_PART");
  Part part;
  char slash = 0;
  if (asked && !(std::istringstream(asked) >> part.number >> slash >> part.of && slash == '/' &&
                 part.number >= 1 && part.number <= part.of))
    throw std::invalid_argument(
        cat("DELTASANE_FAULTS_PART: expected K/N, K from 1 to N, found ", asked));
  return part;
}

// Those after `first` up to `last`, or some of them: the last, and a few before; of these, this
// process's part.
std::vector<int64_t> some_of(int64_t first, int64_t last) {
  std::vector<int64_t> all;
  const int64_t count = last - first;
  const int64_t wanted = std::min(count, wanted_calls() ? wanted_calls() : 4);
  Random random{uint64_t(count)};
  for (int64_t i = 0; i < wanted; ++i)
    all.push_back(first + 1 +
                  (wanted == count
                       ? i
                       : count * i / wanted + int64_t(random.below(uint64_t(count / wanted)))));
  if (count > 0) all.back() = last;
  const Part part = wanted_part();
  std::vector<int64_t> mine;
  for (size_t i = 0; i < all.size(); ++i)
    if (int64_t(i) % part.of == part.number - 1) mine.push_back(all[i]);
  return mine;
}

std::map<std::string, int64_t> counts_in(const fs::path& file) {
  std::map<std::string, int64_t> counts;
  std::istringstream lines(read_file(file));
  std::string name;
  for (int64_t count = 0; lines >> name >> count;) counts[name] = count;
  return counts;
}

class Faults : public testing::TestWithParam<const char*> {
 protected:
  Scenario scenario(const fs::path& folder) const {
    const std::vector<Scenario> all = bench_.scenarios(folder);
    return *std::ranges::find(all, std::string(GetParam()), &Scenario::name);
  }

  void expect_survived(const Fault& fault, int64_t at, bool onwards,
                       const std::map<std::string, std::string>& before,
                       const std::map<std::string, std::string>& whole) {
    const fs::path folder = bench_.folder("run");
    bench_.prepare(GetParam(), folder);
    const Scenario now = scenario(folder);
    const Outcome hit = run_with_shim(now.first, {cat("DELTASANE_FAULT=", fault.call, ":", at, ":",
                                                      fault.reason, onwards ? ":on" : "")});
    const std::string what =
        cat(GetParam(), " with ", fault.call, " ", at, onwards ? " onwards" : "", ": exit code ",
            hit.exit_code, ": ", hit.output);
    EXPECT_LT(hit.exit_code, 124) << what;
    if (hit.exit_code != 0) {
      EXPECT_FALSE(hit.output.empty()) << what;
    }
    const auto after = files_below(folder);
    if (hit.exit_code == 0) {
      for (const auto& [name, bytes] : whole)
        EXPECT_TRUE(after.contains(name) && after.at(name) == bytes) << name << "; " << what;
    }
    for (const auto& [name, bytes] : before)
      EXPECT_TRUE(
          after.contains(name) &&
          (after.at(name) == bytes || (whole.contains(name) && after.at(name) == whole.at(name))))
          << name << "; " << what;
    Outcome next = run_with_shim(now.again, {});
    if (next.exit_code != 0) next = run_with_shim(now.first, {});  // there was nothing to resume from
    EXPECT_EQ(next.exit_code, 0) << what << "\nthen: " << next.output;
    const auto end = files_below(folder);
    for (const auto& [name, bytes] : whole)
      EXPECT_TRUE(end.contains(name) && end.at(name) == bytes) << name << "; " << what;
    EXPECT_EQ(litter_below(folder), std::vector<std::string>()) << what;
  }

  // That every command makes before it begins, to describe the flags of all.
  int64_t allocations_of_flags() const {
    const fs::path counted = bench_.folder("counts_of_flags");
    run_with_shim({DELTASANE_PROGRAM, "--version"},
                  {cat("DELTASANE_FAULT_COUNTS=", counted.string())});
    return counts_in(counted)["allocate"];
  }

  FaultBench bench_;
};

TEST_P(Faults, LeaveOldFilesOrWholeNewOnes) {
  const fs::path folder = bench_.folder("run"), counted = bench_.folder("counts");
  if (std::string(GetParam()) == "answers" && !answers::has_algebra())
    GTEST_SKIP() << "this build compares plain numbers only";
  bench_.prepare(GetParam(), folder);
  const auto before = files_below(folder);
  const Outcome good =
      run_with_shim(scenario(folder).first, {cat("DELTASANE_FAULT_COUNTS=", counted.string())});
  ASSERT_EQ(good.exit_code, 0) << good.output;
  const auto whole = files_below(folder);
  std::map<std::string, int64_t> counts = counts_in(counted);
  const int64_t described = allocations_of_flags();
  EXPECT_GT(described, 0);
  EXPECT_GT(counts["allocate"], described);
  for (const Fault& fault : faults) {
    const bool skips = fault.call == "allocate" && !is_asked("all");
    const std::vector<int64_t> tried = some_of(skips ? described : 0, counts[fault.call]);
    for (const int64_t at : tried) {
      expect_survived(fault, at, false, before, whole);
      if (wanted_calls()) expect_survived(fault, at, true, before, whole);
      if (HasFailure() && !wanted_calls()) return;
    }
    std::cout << GetParam() << ": " << tried.size() << " of " << counts[fault.call] << " calls of "
              << fault.call << " made to fail" << (wanted_calls() ? ", once and from there on" : "")
              << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, Faults,
                         testing::Values("convert", "generate", "train", "stream", "eval",
                                         "answers"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace deltasane::test
