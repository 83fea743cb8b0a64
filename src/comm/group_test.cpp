#include "comm/group.h"

#include <gtest/gtest.h>

#include <string_view>
#include <thread>

#include "base/cat.h"
#include "comm/socket/socket_group.h"
#include "support/errors.h"
#include "support/process.h"
#include "support/scratch.h"

namespace deltasane::comm {
namespace {

TEST(Group, OfOneIsTheIdentity) {
  const auto group = join();
  std::vector<float> numbers{1, 2, 3};
  group->begin_all_reduce(numbers);
  group->finish_all_reduces();
  EXPECT_EQ(numbers, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  EXPECT_EQ(group->all_reduce(2.5), 2.5);
}

// Both kinds of job: started by mpirun, and by hand with sockets.
class GroupOfSeveral : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (by_mpi() && std::string_view(DELTASANE_MPIEXEC).empty())
      GTEST_SKIP() << "this build has no MPI";
  }
  static bool by_mpi() { return std::string_view(GetParam()) == "mpirun"; }
  static test::Outcome with_ranks(int count, const std::string& what) {
    return test::run_job(by_mpi() ? DELTASANE_MPIEXEC : "", count, {DELTASANE_RANKS, what});
  }
};
INSTANTIATE_TEST_SUITE_P(Launchers, GroupOfSeveral, testing::Values("mpirun", "sockets"),
                         [](const auto& one) { return std::string(one.param); });

void expect_output(const test::Outcome& outcome, const std::string& part) {
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

TEST_P(GroupOfSeveral, AddsUpOverAll) {
  const test::Outcome outcome = with_ranks(3, "sum");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  for (int rank = 0; rank < 3; ++rank)
    expect_output(outcome,
                  cat("rank ", rank, " of 3: 6 30 4.5 1; all 0 10 20; broadcast 77; local ", rank,
                      " of 3\n"));
}

TEST_P(GroupOfSeveral, ReportsADisagreement) {
  const test::Outcome outcome = with_ranks(2, "differ");
  EXPECT_NE(outcome.exit_code, 0);
  expect_output(
      outcome, "configuration: expected the same on every process, found that rank 1 of 2 differs");
}

TEST_P(GroupOfSeveral, FailsWhenOneProcessExits) {
  const test::Outcome outcome = with_ranks(2, "die");
  EXPECT_NE(outcome.exit_code, 0);
  expect_output(outcome, "rank 1");
}

// With sockets there is no launcher that ends the others: each notices it wherever it waits.
TEST(SocketGroup, NamesTheRankThatExited) {
  for (const char* what : {"die", "die watched"}) {
    const test::Outcome outcome = test::run_job("", 3, {DELTASANE_RANKS, what});
    EXPECT_NE(outcome.exit_code, 0);
    expect_output(outcome, "rank 1 of 3: expected it to be running, found that it has exited");
    expect_output(outcome, "rank 0 of 3: expected it to be running, found that it has exited");
  }
}

TEST(SocketGroup, NamesTheRankWithADifferentCall) {
  const test::Outcome outcome = test::run_job("", 2, {DELTASANE_RANKS, "apart"});
  EXPECT_NE(outcome.exit_code, 0);
  expect_output(outcome, "rank 1 of 2: expected call 0 with 8 bytes as on rank 0, found call 1");
}

// Every process is a thread here. The sums have the bits of summation in the order of the ranks.
TEST(SocketGroup, AddsUpInTheOrderOfTheRanks) {
  const test::Scratch scratch;
  constexpr int size = 3;
  constexpr size_t count = (size_t{1} << 18) + 5;  // more than is sent at a time
  std::vector<std::vector<float>> numbers(size, std::vector<float>(count));
  for (size_t rank = 0; rank < size; ++rank)
    for (size_t i = 0; i < count; ++i)
      numbers[rank][i] = 1.0f / float(1 + i % 1000) * float(1 + rank * rank * 7919);
  std::vector<float> expected = numbers[0];
  for (size_t rank = 1; rank < size; ++rank)
    for (size_t i = 0; i < count; ++i) expected[i] += numbers[rank][i];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      const auto group = socket_group({rank, size, scratch.path() / "group"});
      group->begin_all_reduce(numbers[size_t(rank)]);
      group->finish_all_reduces();
    });
  for (std::thread& one : threads) one.join();
  for (const std::vector<float>& one : numbers) EXPECT_EQ(one, expected);
}

TEST(SocketGroup, TimesOut) {
  const test::Scratch scratch;
  const std::string address = scratch.path() / "group";
  EXPECT_FAULT(socket_group({0, 2, address, 0.05}), Fault::device,
               "rank 1 of 2: expected it at " + address + " within 0.05 s, found no process");
  EXPECT_FAULT(socket_group({1, 2, address, 0.05}), Fault::device,
               "rank 0 of 2: expected it at " + address + " within 0.05 s, found no process");
  EXPECT_FAULT(socket_group({1, 2, "nowhere", 0.05}), Fault::usage,
               "or a path that begins with '/', found 'nowhere'");
}

TEST(SocketGroup, ConnectsOverTcp) {
  const test::Outcome outcome =
      test::run({"sh", "-c",
                 cat("export DELTASANE_SIZE=2 DELTASANE_ADDRESS=127.0.0.1:$((20000 + $$ % 10000))\n"
                     "DELTASANE_RANK=1 ",
                     DELTASANE_RANKS, " sum & DELTASANE_RANK=0 ", DELTASANE_RANKS, " sum; wait")});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  expect_output(outcome, "rank 0 of 2: 3 10 2 1;");
  expect_output(outcome, "rank 1 of 2: 3 10 2 1;");
}

TEST(SocketGroup, ReadsItsEnvironmentOrSaysWhatIsWrong) {
  const auto with = [](const char* rank, const char* size) {
    return test::run({"env", cat("DELTASANE_RANK=", rank), cat("DELTASANE_SIZE=", size),
                      DELTASANE_RANKS, "sum"});
  };
  expect_output(with("2", "2"), "DELTASANE_RANK: expected a number from 0 to 1, found '2'");
  expect_output(with("0", "two"), "DELTASANE_SIZE: expected a number from 1 to 1024, found 'two'");
  expect_output(test::run({"env", "DELTASANE_SIZE=2", DELTASANE_RANKS, "sum"}),
                "DELTASANE_RANK: expected a number from 0 to 1, found nothing");
  EXPECT_EQ(with("0", "1").exit_code, 0);
}

}  // namespace
}  // namespace deltasane::comm
