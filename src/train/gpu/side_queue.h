// A second queue of work beside a GPU's first one: small work goes there, for which the large work
// of the first leaves room enough.
#pragma once

#include "kernel/matmul/cuda.h"
#include "tensor/cuda/gpu.h"
#include "train/gpu/work_clock.h"

namespace deltasane::train::gpu {

class SideQueue {
 public:
  explicit SideQueue(const Gpu& main) : main_(main), gpu_(main.index()), products_(gpu_) {}

  // What is asked for here between the two starts after all that was asked for in the main queue
  // before; what is asked for there after join() starts after all of it.
  void begin() {
    begun_.record(main_);
    begun_.let_wait(gpu_.stream());
  }
  void end() { ended_.record(gpu_); }
  void join() const { ended_.let_wait(main_.stream()); }

  const Gpu& gpu() const { return gpu_; }
  kernel::cuda::Products& products() { return products_; }
  WorkClock& clock() { return clock_; }

 private:
  const Gpu& main_;
  Gpu gpu_;
  kernel::cuda::Products products_;
  WorkClock clock_;  // never started: the main queue's has the time
  GpuEvent begun_, ended_;
};

}  // namespace deltasane::train::gpu
