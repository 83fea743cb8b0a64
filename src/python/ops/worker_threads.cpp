#include "python/ops/worker_threads.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/error.h"

namespace deltasane::python {
namespace {

struct Workers {
  explicit Workers(int count) : pool(count), process(getpid()) {}
  ThreadPool pool;
  std::mutex running;
  const pid_t process;
};

std::atomic<int> wanted{0};
std::atomic<Workers*> current{nullptr};

// The Workers of this process. Others are left alone: a pool of another process has no threads to
// end, and one of another size may be in use.
Workers& workers() {
  Workers* found = current.load();
  const int count = wanted.load() ? wanted.load() : usable_processors();
  if (found && found->process == getpid() && found->pool.size() == count) return *found;
  auto started = std::make_unique<Workers>(count);
  if (current.compare_exchange_strong(found, started.get())) return *started.release();
  return workers();
}

}  // namespace

void with_worker_threads(int64_t multiplications, const std::function<void(ThreadPool&)>& body) {
  constexpr int64_t few = 1 << 19;  // about 50 us
  if (multiplications < few) {
    ThreadPool alone(1);
    return body(alone);
  }
  Workers& own = workers();
  const std::lock_guard lock(own.running);
  body(own.pool);
}

void set_threads(int count) {
  if (count < 0) fail(Fault::argument, "threads: expected 0 or more, found ", count);
  wanted = count;
}

int threads() { return wanted.load() ? wanted.load() : usable_processors(); }

}  // namespace deltasane::python
