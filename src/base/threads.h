// A fixed set of threads that run numbered pieces of work.
//
// parallel(count, body) calls body(i) once for each i in [0, count), in any order and on any
// thread, and returns when all are done. A body writes only what belongs to its number, so no
// result depends on how many threads there are. The first exception a body throws is thrown again
// here, after all pieces have ended. A body must not call parallel on the same pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace deltasane {

class ThreadPool {
 public:
  explicit ThreadPool(int threads = 0);  // 0: as many as this process may run on
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  void parallel(int64_t count, const std::function<void(int64_t)>& body);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// How many processors this process may run on.
int usable_processors();

}  // namespace deltasane
