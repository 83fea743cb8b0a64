// The process group of a job, with its collective operations.
//
// A job is one process, as many as mpirun starts, or as many as were started with DELTASANE_RANK
// and DELTASANE_SIZE (socket_group.h). All processes make the same calls in the same order, each
// from the thread that called join(). Messages name a process as "rank 3 of 8".
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

  // Starts an in-place sum of `numbers` over all processes. They may not be used before
  // finish_all_reduces(), which completes all that were started; other work overlaps.
  virtual void begin_all_reduce(std::span<float> numbers) = 0;
  virtual void finish_all_reduces() = 0;

  virtual double all_reduce(double number) = 0;                   // the sum over all processes
  virtual std::vector<uint64_t> all_gather(uint64_t number) = 0;  // by rank
  virtual void broadcast(std::span<std::byte> bytes) = 0;         // from rank 0

  // Fails if another process is known to have exited. The one call that is not collective: for use
  // while waiting for the others by other means. Does nothing where a launcher ends the whole job.
  virtual void check_peers() {}

  bool any(bool here) { return all_reduce(here ? 1 : 0) > 0; }  // logical or over all processes

  // Fails on every process, naming the first that differs, unless all have the same value.
  void expect_same(std::string_view what, uint64_t value);
};

// The group that the launcher's environment describes; a single process without one.
std::unique_ptr<Group> join();

}  // namespace deltasane::comm
