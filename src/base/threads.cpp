#include "base/threads.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace deltasane {

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  return std::max(1, int(std::thread::hardware_concurrency()));
}

struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable start, done;
  uint64_t job = 0;  // number of the job that workers should take up
  bool ending = false;
  int busy = 0;  // workers still in the current job
  const std::function<void(int64_t)>* body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::vector<std::thread> workers;

  void work() {
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      try {
        (*body)(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  }

  void serve() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    for (;;) {
      start.wait(lock, [&] { return ending || job != seen; });
      if (ending) return;
      seen = job;
      lock.unlock();
      work();
      lock.lock();
      if (--busy == 0) done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
  if (threads < 0) fail(Fault::usage, "threads: expected 0 (all) or more, found ", threads);
  if (threads == 0) threads = usable_processors();
  for (int i = 1; i < threads; ++i) shared_->workers.emplace_back([this] { shared_->serve(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
  }
  shared_->start.notify_all();
  for (std::thread& worker : shared_->workers) worker.join();
}

int ThreadPool::size() const { return int(shared_->workers.size()) + 1; }

void ThreadPool::parallel(int64_t count, const std::function<void(int64_t)>& body) {
  if (count <= 0) return;
  if (count == 1 || shared_->workers.empty()) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  Shared& s = *shared_;
  {
    const std::lock_guard lock(s.mutex);
    require(s.busy == 0, "ThreadPool::parallel is not called from two places at once");
    s.body = &body;
    s.count = count;
    s.next.store(0, std::memory_order_relaxed);
    s.failure = nullptr;
    s.busy = int(s.workers.size());
    ++s.job;
  }
  s.start.notify_all();
  s.work();
  std::unique_lock lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(s.failure);
}

}  // namespace deltasane
