#include "cli/sweep/sweep_queue.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/io/file_lock.h"
#include "cli/sweep/sweep_run.h"

namespace deltasane::cli {
namespace {

class Queue {
 public:
  explicit Queue(const SweepOptions& options) : options_(options) {}

  void work(const std::string& device) {
    for (const double alpha : options_.alphas) {
      if (failed_) return;
      try {
        work_on(alpha, device);
      } catch (...) {
        const std::lock_guard guard(mutex_);
        if (!failed_.exchange(true)) failure_ = std::current_exception();
      }
    }
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work_on(double alpha, const std::string& device) const {
    const SweepRun run(options_, alpha);
    if (run.finished()) return;
    std::error_code error;
    fs::create_directories(run.folder(), error);
    if (error) fail(Fault::file, run.folder(), ": cannot make the folder: ", error.message());
    const auto lock = FileLock::attempt(run.folder() / "lock");
    if (!lock || run.finished()) return;
    const bool alone = options_.devices.size() == 1 && !options_.json;
    run.all(device, alone ? fs::path() : run.folder() / "log.txt");
  }

  const SweepOptions& options_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void work_off(const SweepOptions& options) {
  Queue queue(options);
  if (options.devices.size() == 1) {
    queue.work(options.devices[0]);
  } else {
    std::vector<std::thread> workers;
    for (const std::string& device : options.devices)
      workers.emplace_back([&queue, &device] { queue.work(device); });
    for (std::thread& worker : workers) worker.join();
  }
  queue.rethrow();
}

bool all_finished(const SweepOptions& options) {
  return std::ranges::all_of(options.alphas,
                             [&](double alpha) { return SweepRun(options, alpha).finished(); });
}

}  // namespace deltasane::cli
