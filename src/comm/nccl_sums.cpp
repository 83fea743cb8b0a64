#include "comm/nccl_sums.h"

#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/timing.h"

namespace deltasane::comm {
namespace {

std::string version_text(int version) {
  return cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

void check_nccl(ncclResult_t result, std::string_view what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  const std::string_view more = ncclGetLastError(comm);
  fail(Fault::device, "NCCL ", version_text(nccl_version()), ": expected to ", what,
       ", found: ", ncclGetErrorString(result), more.empty() ? "" : "; ", more,
       "; NCCL_DEBUG=WARN says more, and run.sums = \"host\" does without it");
}

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

// A communicator none of whose calls stops the host. After an error it is given up: the others may
// be gone, and would be waited for.
class Communicator {
 public:
  Communicator() = default;
  ~Communicator() {
    if (!comm_) return;
    if (std::uncaught_exceptions() == 0 && ended_well())
      ncclCommDestroy(comm_);
    else
      ncclCommAbort(comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ncclComm_t get() const { return comm_; }
  ncclComm_t* place() { return &comm_; }

  ncclResult_t state() const {
    ncclResult_t result = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &result), "tell its state", comm_);
    return result;
  }

 private:
  bool ended_well() {
    constexpr double patience = 10;  // seconds
    const double until = seconds_now() + patience;
    ncclResult_t result = ncclCommFinalize(comm_);
    while (result == ncclInProgress && seconds_now() < until) {
      rest();
      if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) return false;
    }
    return result == ncclSuccess;
  }

  ncclComm_t comm_ = nullptr;
};

class NcclSums : public DeviceSums {
 public:
  NcclSums(Group& group, const Gpu& gpu) : group_(group), gpu_(gpu), queue_(gpu.index()) {
    ncclUniqueId id{};
    if (group.rank() == 0) check_nccl(ncclGetUniqueId(&id), "begin a group");
    group.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    settle(ncclCommInitRankConfig(comm_.place(), group.size(), id, group.rank(), &config),
           "form a group of all GPUs");
  }

  void begin(float* numbers, int64_t count) override {
    ready_.record(gpu_);
    ready_.let_wait(queue_.stream());
    settle(ncclAllReduce(numbers, numbers, size_t(count), ncclFloat, ncclSum, comm_.get(),
                         queue_.stream()),
           "begin a sum");
  }

  void finish() override {
    done_.record(queue_);
    done_.let_wait(gpu_.stream());
  }

  void wait() override {
    while (!done_.reached()) {
      check_nccl(comm_.state(), "add up", comm_.get());
      group_.expect_others();
      rest();
    }
  }

  std::string name() const override { return cat("NCCL ", version_text(nccl_version())); }

 private:
  void settle(ncclResult_t result, std::string_view what) {
    while (result == ncclInProgress) {
      group_.expect_others();
      rest();
      result = comm_.state();
    }
    check_nccl(result, what, comm_.get());
  }

  Group& group_;
  const Gpu& gpu_;
  Gpu queue_;  // of sums
  Communicator comm_;
  GpuEvent ready_, done_;
};

}  // namespace

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "tell its version");
  return version;
}

std::unique_ptr<DeviceSums> nccl_sums(Group& group, const Gpu& gpu, bool share_gpu) {
  if (share_gpu) {
    if (nccl_version() < nccl_that_shares)
      fail(Fault::device, "run.share_gpu: expected NCCL ", version_text(nccl_that_shares),
           " or newer for processes on one GPU, found ", version_text(nccl_version()),
           "; use run.sums = \"host\"");
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  }
  return std::make_unique<NcclSums>(group, gpu);
}

}  // namespace deltasane::comm
