// Cycles of a GPU's own clock between two places of a queue.
//
// Heat and power move that clock by several percent within seconds, so that two ways to do one work
// differ in seconds for that alone; in cycles they are compared as if it stood still, but for what
// waits for memory, whose clock is another one.
#pragma once

#include <cstdint>

#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel {

class CycleMark {
 public:
  explicit CycleMark(const Gpu& gpu);
  void record(const Gpu& gpu);  // when all that was asked for before is done

  // Waits for both. The median of the multiprocessors, each of which counts for itself.
  double cycles_since(const CycleMark& before, const Gpu& gpu) const;

 private:
  GpuTensor<int64_t> counts_;  // of each multiprocessor; 0 where no block came by
};

}  // namespace deltasane::kernel
