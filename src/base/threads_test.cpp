#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "support/errors.h"

namespace deltasane {
namespace {

TEST(ThreadPool, RunsEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t count : {0, 1, 2, 3, 1000}) {
      std::vector<int> done(size_t(count), 0);
      pool.parallel(count, [&](int64_t i) { ++done[size_t(i)]; });
      for (const int times : done) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, ManyShortJobsFollowEachOther) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(8, 0);
  for (int job = 0; job < 5000; ++job)
    pool.parallel(int64_t(sums.size()), [&](int64_t i) { sums[size_t(i)] += i; });
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(sums[i], int64_t(i) * 5000);
}

// Jobs back to back, after a short pause and after workers have gone to sleep, with and without
// more threads than processors.
TEST(ThreadPool, WaitsSpinningAndSleeping) {
  for (const int threads : {2, usable_processors(), usable_processors() + 3}) {
    ThreadPool pool(threads);
    std::vector<int64_t> sums(5, 0);
    for (int job = 0; job < 300; ++job) {
      pool.parallel(5, [&](int64_t i) { sums[size_t(i)] += job; });
      if (job % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (job % 50 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    for (const int64_t sum : sums) EXPECT_EQ(sum, 299 * 300 / 2);
  }
}

TEST(ThreadPool, RethrowsAnErrorAndStaysUsable) {
  ThreadPool pool(2);
  EXPECT_FAULT(pool.parallel(10,
                             [](int64_t i) {
                               if (i == 4) fail(Fault::argument, "index ", i);
                             }),
               Fault::argument, "index 4");
  int64_t done[10] = {};
  pool.parallel(10, [&](int64_t i) { done[i] = 1; });
  EXPECT_EQ(std::accumulate(done, done + 10, int64_t{0}), 10);
}

// Each phase reads what the phase before wrote, on whatever thread that was.
TEST(Team, BarrierSeparatesPhases) {
  for (const int threads : {1, 2, usable_processors() + 3}) {
    ThreadPool pool(threads);
    std::vector<int64_t> from(64, 1), to(64, 0);
    std::atomic<int> bodies{0};
    pool.parallel_region([&](Team& team) {
      EXPECT_EQ(team.size(), threads);
      ++bodies;
      for (int phase = 0; phase < 200; ++phase) {
        auto& in = phase % 2 ? to : from;
        auto& out = phase % 2 ? from : to;
        for (int64_t i; (i = team.next()) < 64;) out[size_t(i)] = in[size_t(63 - i)] + 1;
        team.barrier();
      }
    });
    EXPECT_EQ(bodies, threads);
    for (const int64_t value : from) EXPECT_EQ(value, 201);
  }
}

TEST(Team, BarrierThrowsAfterAnotherThreadFailed) {
  for (const int threads : {1, 2, usable_processors() + 3}) {
    ThreadPool pool(threads);
    for (const int late : {0, 1}) {
      EXPECT_FAULT(pool.parallel_region([&](Team& team) {
        team.barrier();
        if (team.next() == 0) {
          if (late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          fail(Fault::argument, "thread");
        }
        team.barrier();
        team.barrier();
      }),
                   Fault::argument, "thread");
    }
    std::atomic<int> bodies{0};
    pool.parallel_region([&](Team& team) { team.barrier(), ++bodies; });
    EXPECT_EQ(bodies, threads);
  }
}

TEST(ThreadPool, RejectsSizesThatNoMachineHas) {
  EXPECT_FAULT(ThreadPool(-1), Fault::usage, "expected 0 (all) to 1024, found -1");
  EXPECT_FAULT(ThreadPool(100'000), Fault::usage, "expected 0 (all) to 1024, found 100000");
}

}  // namespace
}  // namespace deltasane
