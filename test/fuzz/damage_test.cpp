// Damaged files: each parser gets mutations of its corpus in a process of its own, with limits on
// time and memory. DELTASANE_MUTATIONS sets how many there are for all parsers together.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iostream>
#include <set>

#include "base/processor_time.h"
#include "fuzz/corpus.h"
#include "support/fixture_bytes.h"
#include "support/mutate.h"

namespace deltasane::fuzz {
namespace {

constexpr itimerval most_time{{0, 0}, {5, 0}};  // of the processor: others may use it, too
constexpr rlim_t most_bytes = rlim_t{1} << 30;

// What the process has to say, also where it is killed.
struct Report {
  int64_t round = 0, accepted = 0, other_meaning = 0, out_of_memory = 0;
  double slowest = 0;  // seconds of a processor
};

int64_t mutations() {
  const char* const text = std::getenv("DELTASANE_MUTATIONS");
  int64_t count = 2000;
  if (text) std::from_chars(text, text + std::string_view(text).size(), count);
  return count;
}

void mutate_all(const Target& target, int64_t rounds, Report& report) {
  std::vector<std::string> seeds;
  std::set<uint64_t> meanings;  // of the files as they are
  for (const CorpusFile& file : corpus_of(target))
    if (file.name.starts_with("good")) {
      seeds.push_back(file.bytes);
      meanings.insert(parse(target, test::Exact(file.bytes).span()).value());
    }
  for (report.round = 0; report.round < rounds; ++report.round) {
    Random random(1, uint64_t(report.round));
    std::string bytes = seeds[size_t(report.round) % seeds.size()];
    test::mutate(bytes, random);
    ::setitimer(ITIMER_PROF, &most_time, nullptr);  // ends the process by SIGPROF
    const double begin = processor_seconds_now();
    try {
      const auto meaning = parse(target, test::Exact(bytes).span());
      report.accepted += meaning.has_value();
      report.other_meaning += meaning && !meanings.contains(*meaning);
    } catch (const std::bad_alloc&) {
      ++report.out_of_memory;
    }
    report.slowest = std::max(report.slowest, processor_seconds_now() - begin);
  }
}

class Damage : public testing::TestWithParam<Target> {};

TEST_P(Damage, IsRefusedOrHarmless) {
  const Target& target = GetParam();
  const int64_t rounds = std::max<int64_t>(1, mutations() / int64_t(targets().size()));
  auto* const report = static_cast<Report*>(::mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE,
                                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(report, MAP_FAILED);
  *report = {};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (std::string_view(DELTASANE_SANITIZER).empty()) {  // sanitizers reserve terabytes of addresses
      const rlimit limit{most_bytes, most_bytes};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    try {
      mutate_all(target, rounds, *report);
    } catch (const std::exception& error) {
      std::fputs(error.what(), stderr);
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "round " << report->round << ": "
      << (WIFSIGNALED(status) ? cat("signal ", WTERMSIG(status)) : std::string("an exception"));
  EXPECT_EQ(report->out_of_memory, 0) << "more than " << most_bytes << " bytes";
  if (target.sealed) {
    EXPECT_EQ(report->other_meaning, 0) << "damaged, and accepted as something else";
  }
  EXPECT_LE(rlim_t(used.ru_maxrss) << 10, most_bytes);
  std::cout << target.name << ": " << report->round << " damaged files, "
            << report->round - report->accepted << " refused, " << report->accepted
            << " accepted, " << report->other_meaning << " of these as something else; slowest "
            << int64_t(1e3 * report->slowest) << " ms, memory " << (used.ru_maxrss >> 10)
            << " MB\n";
  ::munmap(report, sizeof(Report));
}

INSTANTIATE_TEST_SUITE_P(Parsers, Damage, testing::ValuesIn(targets()), test_name);

}  // namespace
}  // namespace deltasane::fuzz
