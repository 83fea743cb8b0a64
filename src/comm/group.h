// The processes that work on one job, and sums over them.
//
// A job is one process, or as many as mpirun starts. All processes make the same calls in the same
// order, each from the thread that joined. What is said of one process is said as "rank 3 of 8".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

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
  virtual bool any(bool here) = 0;  // whether it is true of any process

  // Fails on every process, naming the first that differs, unless all have the same value.
  virtual void expect_same(std::string_view what, uint64_t value) = 0;
};

// One process alone, or this one's place in what mpirun started.
std::unique_ptr<Group> join();

}  // namespace deltasane::comm
