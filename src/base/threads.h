// A fixed set of threads that run numbered pieces of work.
//
// parallel(count, body) calls body(i) once for each i in [0, count), in any order and on any
// thread, and returns when all are done. A body writes only what belongs to its number, so no
// result depends on how many threads there are. The first exception a body throws is thrown again
// here, after all pieces have ended. A body must not call parallel on the same pool.
//
// together(body) calls body(crew) once on every thread. The threads share work out by crew.next(),
// and wait for each other at crew.meet(), which costs much less than the end of one job and the
// start of the next.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

namespace deltasane {

// The threads that are in one call of ThreadPool::together.
class Crew {
 public:
  Crew(int size, bool spins) : size_(size), spins_(spins) {}

  int size() const { return size_; }
  // The next number of this section, from 0 on: every number goes to one thread.
  int64_t next() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // Waits until all threads are here: what each wrote before, all see after. Then a new section
  // begins. Throws where the body of another thread has thrown.
  void meet();

 private:
  friend class ThreadPool;
  void run(const std::function<void(Crew&)>& body);

  const int size_;
  const bool spins_;
  std::exception_ptr failure_;  // written by the first who sets broken_
  std::atomic<bool> broken_{false};
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> here_{0};  // threads that wait
  alignas(64) std::atomic<int> section_{0};
};

class ThreadPool {
 public:
  explicit ThreadPool(int threads = 0);  // 0: as many as this process may run on
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  void parallel(int64_t count, const std::function<void(int64_t)>& body);
  void together(const std::function<void(Crew&)>& body);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// How many processors this process may run on.
int usable_processors();

}  // namespace deltasane
