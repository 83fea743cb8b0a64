// A thread pool with parallel loops and parallel regions.
//
// parallel(count, body) calls body(i) once for each i in [0, count), in any order and on any
// thread, and returns when all are done. A body writes only what belongs to its index, so results
// do not depend on the number of threads. The first exception that a body throws is rethrown to the
// caller after all indices have run. A body must not call parallel on the same pool.
//
// parallel_region(body) calls body(team) once on every thread. The threads distribute work with
// team.next() and synchronise with team.barrier(), which is much cheaper than the end of one
// parallel loop and the start of the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace deltasane {

// The threads of one parallel region.
class Team {
 public:
  Team(int size, bool spins) : size_(size), spins_(spins) {}

  int size() const { return size_; }
  // The next work index of this phase, from 0 on: every index goes to one thread.
  int64_t next() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // Waits until all threads have arrived: what each wrote before, all see after. Then a new phase
  // begins and next() restarts at 0. Throws if the body of another thread has thrown.
  void barrier();

 private:
  friend class ThreadPool;
  void run(const std::function<void(Team&)>& body);

  const int size_;
  const bool spins_;
  std::exception_ptr failure_;  // written by the first thread that sets broken_
  std::atomic<bool> broken_{false};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<int> phase_{0};
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads = 0);  // 0: one per usable processor
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  void parallel(int64_t count, const std::function<void(int64_t)>& body);
  void parallel_region(const std::function<void(Team&)>& body);

 private:
  struct Shared;
  void stop();
  std::unique_ptr<Shared> shared_;
};

// The number of processors in the affinity mask of this process.
int usable_processors();

}  // namespace deltasane
