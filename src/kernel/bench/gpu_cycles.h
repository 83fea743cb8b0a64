// Cycles of a GPU's clock between two points of a stream.
//
// Heat and power move that clock by several percent within seconds, so that two kernels differ in
// seconds for that alone. In cycles they are compared as at a constant clock, but for the time they
// wait for memory, which has a clock of its own.
#pragma once

#include <cstdint>

#include "tensor/cuda/gpu_tensor.h"

namespace deltasane::kernel {

class CycleMark {
 public:
  explicit CycleMark(const Gpu& gpu);
  void record(const Gpu& gpu);  // when all work enqueued before is done

  // Blocks until both are recorded. The median over the multiprocessors, each with its own count.
  double cycles_since(const CycleMark& before, const Gpu& gpu) const;

 private:
  GpuTensor<int64_t> counts_;  // of each multiprocessor; 0 where no block ran
};

}  // namespace deltasane::kernel
