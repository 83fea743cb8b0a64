// The processes that work on one job, and sums over them.
//
// A job is one process, as many as mpirun starts, or as many as were started with DELTASANE_RANK
// and DELTASANE_SIZE (socket_group.h). All processes make the same calls in the same order, each
// from the thread that joined. What is said of one process is said as "rank 3 of 8".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace deltasane::comm {

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Begins to add up `numbers` over all processes, in place. They may not be touched before
  // finish_sums(), which ends all that were begun; other work goes on in between.
  virtual void begin_sum(std::span<float> numbers) = 0;
  virtual void finish_sums() = 0;

  virtual double sum(double number) = 0;
  virtual std::vector<uint64_t> gather(uint64_t number) = 0;  // of every process, by rank
  virtual void broadcast(std::span<std::byte> bytes) = 0;     // those of rank 0, to all

  // Fails where another process is known to have ended. The one call that a process may make alone:
  // for use while it waits for others by another way. Does nothing where a launcher ends all.
  virtual void expect_others() {}

  bool any(bool here) { return sum(here ? 1 : 0) > 0; }  // whether it is true of any process

  // Fails on every process, naming the first that differs, unless all have the same value.
  void expect_same(std::string_view what, uint64_t value);
};

// One process alone, or this one's place among those that were started together.
std::unique_ptr<Group> join();

}  // namespace deltasane::comm
