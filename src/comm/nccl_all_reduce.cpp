#include "comm/nccl_all_reduce.h"

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
       "; NCCL_DEBUG=WARN gives details, and run.sums = \"host\" avoids NCCL");
}

void sleep_briefly() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }

// A non-blocking communicator. After an error it is aborted instead of destroyed, which would wait
// for processes that may have exited.
class Communicator {
 public:
  Communicator() = default;
  ~Communicator() {
    if (!comm_) return;
    if (std::uncaught_exceptions() == 0 && finalized())
      ncclCommDestroy(comm_);
    else
      ncclCommAbort(comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  ncclComm_t get() const { return comm_; }
  ncclComm_t* address() { return &comm_; }

  ncclResult_t state() const {
    ncclResult_t result = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(comm_, &result), "report its state", comm_);
    return result;
  }

 private:
  bool finalized() {
    constexpr double timeout = 10;  // seconds
    const double until = seconds_now() + timeout;
    ncclResult_t result = ncclCommFinalize(comm_);
    while (result == ncclInProgress && seconds_now() < until) {
      sleep_briefly();
      if (ncclCommGetAsyncError(comm_, &result) != ncclSuccess) return false;
    }
    return result == ncclSuccess;
  }

  ncclComm_t comm_ = nullptr;
};

class NcclAllReduce : public DeviceAllReduce {
 public:
  NcclAllReduce(Group& group, const Gpu& gpu) : group_(group), gpu_(gpu), stream_(gpu.index()) {
    ncclUniqueId id{};
    if (group.rank() == 0) check_nccl(ncclGetUniqueId(&id), "make an id");
    group.broadcast(std::as_writable_bytes(std::span(&id, 1)));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    wait_for(ncclCommInitRankConfig(comm_.address(), group.size(), id, group.rank(), &config),
             "initialise a communicator");
  }

  void begin(float* numbers, int64_t count) override {
    ready_.record(gpu_);
    ready_.stream_wait(stream_.stream());
    wait_for(ncclAllReduce(numbers, numbers, size_t(count), ncclFloat, ncclSum, comm_.get(),
                           stream_.stream()),
             "start a reduction");
  }

  void finish() override {
    done_.record(stream_);
    done_.stream_wait(gpu_.stream());
  }

  void wait() override {
    while (!done_.reached()) {
      check_nccl(comm_.state(), "reduce", comm_.get());
      group_.check_peers();
      sleep_briefly();
    }
  }

  std::string name() const override { return cat("NCCL ", version_text(nccl_version())); }

 private:
  void wait_for(ncclResult_t result, std::string_view what) {
    while (result == ncclInProgress) {
      group_.check_peers();
      sleep_briefly();
      result = comm_.state();
    }
    check_nccl(result, what, comm_.get());
  }

  Group& group_;
  const Gpu& gpu_;
  Gpu stream_;  // of the reductions
  Communicator comm_;
  GpuEvent ready_, done_;
};

}  // namespace

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "report its version");
  return version;
}

std::unique_ptr<DeviceAllReduce> nccl_all_reduce(Group& group, const Gpu& gpu, bool share_gpu) {
  if (share_gpu) {
    if (nccl_version() < nccl_with_shared_gpus)
      fail(Fault::device, "run.share_gpu: expected NCCL ", version_text(nccl_with_shared_gpus),
           " or newer for processes on one GPU, found ", version_text(nccl_version()),
           "; use run.sums = \"host\"");
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  }
  return std::make_unique<NcclAllReduce>(group, gpu);
}

}  // namespace deltasane::comm
