// A second stream beside a GPU's main one: for small work, which fits beside the large work of the
// first.
#pragma once

#include "kernel/matmul/cuda.h"
#include "model/gpu/work_clock.h"
#include "tensor/cuda/gpu.h"

namespace deltasane {

class SideStream {
 public:
  explicit SideStream(const Gpu& main) : main_(main), gpu_(main.index()), products_(gpu_) {}

  // Work enqueued here between fork() and done() starts after all that the main stream had at the
  // fork; what the main stream gets after join() starts after all of it.
  void fork() {
    forked_.record(main_);
    forked_.stream_wait(gpu_.stream());
  }
  void done() { done_.record(gpu_); }
  void join() const { done_.stream_wait(main_.stream()); }

  const Gpu& gpu() const { return gpu_; }
  kernel::cuda::Products& products() { return products_; }
  WorkClock& clock() { return clock_; }

 private:
  const Gpu& main_;
  Gpu gpu_;
  kernel::cuda::Products products_;
  WorkClock clock_;  // never started: the main stream's has the time
  GpuEvent forked_, done_;
};

}  // namespace deltasane
