#include "comm/group.h"

#include <gtest/gtest.h>

#include <string_view>

#include "base/cat.h"
#include "support/process.h"

namespace deltasane::comm {
namespace {

TEST(Group, OfOneAddsUpToItself) {
  const auto group = join();
  std::vector<float> numbers{1, 2, 3};
  group->begin_sum(numbers);
  group->finish_sums();
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->sum(2.5), 2.5);
}

test::Outcome with_ranks(int count, const std::string& what) {
  return test::run_job(DELTASANE_MPIEXEC, count, {DELTASANE_RANKS, what});
}

TEST(Group, OfSeveralAddsUpOverAll) {
  if (std::string_view(DELTASANE_MPIEXEC).empty()) GTEST_SKIP() << "this build has no MPI";
  const test::Outcome outcome = with_ranks(3, "sum");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_NE(outcome.output.find(cat("rank ", rank, " of 3: 6 30 4.5 1\n")), std::string::npos)
        << outcome.output;
}

TEST(Group, ThatDisagreesIsTold) {
  if (std::string_view(DELTASANE_MPIEXEC).empty()) GTEST_SKIP() << "this build has no MPI";
  const test::Outcome outcome = with_ranks(2, "differ");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("configuration: expected the same on every process, found another "
                                "on rank 1 of 2"),
            std::string::npos)
      << outcome.output;
}

TEST(Group, EndsWithTheFirstOfItsProcesses) {
  if (std::string_view(DELTASANE_MPIEXEC).empty()) GTEST_SKIP() << "this build has no MPI";
  const test::Outcome outcome = with_ranks(2, "die");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("rank 1"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace deltasane::comm
