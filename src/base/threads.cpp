#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
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

namespace {

// A spin-wait hint to the processor.
void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Spins until `ready` for about as long as a model's step takes between two jobs, so that the next
// job need not wake a sleeping thread, which costs more than a small job. Gives up after 50 us.
template <class Ready>
bool spin_until(const Ready& ready) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (;;) {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
    const Clock::duration waited = Clock::now() - begin;
    if (waited > std::chrono::microseconds(50)) return ready();
  }
}

// Thrown by barrier() when another thread will never arrive.
struct Broken {};

}  // namespace

void Team::barrier() {
  const int phase = phase_;
  if (broken_) throw Broken{};
  if (arrived_.fetch_add(1) + 1 == size_) {
    arrived_ = 0;
    next_ = 0;
    phase_ = phase + 1;
    phase_.notify_all();
  } else if (!spins_ || !spin_until([&] { return phase_ != phase; })) {
    phase_.wait(phase);
  }
  if (broken_) throw Broken{};
}

void Team::run(const std::function<void(Team&)>& body) {
  try {
    body(*this);
  } catch (const Broken&) {
    return;
  } catch (...) {
    if (!broken_.exchange(true)) failure_ = std::current_exception();
    ++phase_;
    phase_.notify_all();
  }
}

// A job is published by the store to `job` and has ended when `busy` is 0; these two atomics order
// everything in between. The mutex protects sleeping threads and `failure`.
struct ThreadPool::Shared {
  std::mutex mutex;
  std::condition_variable start, done;
  std::atomic<uint64_t> job{0};  // number of the current job
  std::atomic<bool> ending{false};
  std::atomic<int> busy{0};  // workers still in the current job
  const std::function<void(int64_t)>* body = nullptr;
  int64_t count = 0;
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;
  std::vector<std::thread> workers;
  bool spins =
      true;  // false with more threads than processors: spinning would take time from the others

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

  template <class Ready>
  void wait(std::condition_variable& sleepers, const Ready& ready) {
    if (spins && spin_until(ready)) return;
    std::unique_lock lock(mutex);
    sleepers.wait(lock, ready);
  }

  void serve() {
    for (uint64_t seen = 0;;) {
      wait(start, [&] { return ending || job != seen; });
      if (ending) return;
      seen = job;
      work();
      if (busy.fetch_sub(1) == 1) {
        const std::lock_guard lock(mutex);
        done.notify_one();
      }
    }
  }
};

ThreadPool::ThreadPool(int threads) : shared_(std::make_unique<Shared>()) {
  constexpr int most = 1024;
  if (threads < 0 || threads > most)
    fail(Fault::usage, "threads: expected 0 (all) to ", most, ", found ", threads);
  if (threads == 0) threads = usable_processors();
  shared_->spins = threads <= usable_processors();
  shared_->workers.reserve(size_t(threads));
  try {
    for (int i = 1; i < threads; ++i) shared_->workers.emplace_back([this] { shared_->serve(); });
  } catch (const std::system_error& error) {
    stop();  // those that have begun
    fail(Fault::device, "threads: expected to start ", threads, ", found that only ", size(),
         " can be had: ", error.code().message(), "; ask for fewer");
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
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
  s.wait(s.done, [&] { return s.busy == 0; });
  if (s.failure) std::rethrow_exception(s.failure);
}

// A thread that has taken an index waits at the first barrier until all indices are taken, so that
// no thread takes two.
void ThreadPool::parallel_region(const std::function<void(Team&)>& body) {
  Team team(size(), shared_->spins);
  parallel(size(), [&](int64_t) { team.run(body); });
  if (team.failure_) std::rethrow_exception(team.failure_);
}

}  // namespace deltasane
