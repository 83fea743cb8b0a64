// All-reduce (sum) of GPU buffers over the processes of a job, one GPU per process.
//
// NCCL reduces between the GPUs; without it the buffers are staged through the host and the group.
// Both run on a stream of their own, concurrent with the compute stream of the Gpu.
//
// This header needs no CUDA; what it declares is defined in builds with CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/group.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::comm {

class DeviceAllReduce {
 public:
  virtual ~DeviceAllReduce() = default;

  // Starts an in-place sum of `count` floats over all processes, after all work enqueued on the GPU
  // so far. The buffer may not be used before finish(); other work overlaps. All processes start
  // the same reductions in the same order.
  virtual void begin(float* numbers, int64_t count) = 0;
  // Work enqueued on the GPU from now on runs after all reductions that were started. Blocks where
  // the host takes part in them.
  virtual void finish() = 0;
  // Blocks the host until the reductions are complete. Fails if another process has exited.
  virtual void wait() = 0;

  virtual std::string name() const = 0;  // of the backend
};

enum class AllReduceBackend { automatic, nccl, host };  // automatic: NCCL if available

struct DeviceAllReduceSettings {
  AllReduceBackend backend = AllReduceBackend::automatic;
  bool share_gpu = false;  // whether several processes may use one GPU
};

// Null for a single process, unless a backend is named. Fails on all processes if two use the same
// GPU without share_gpu.
std::unique_ptr<DeviceAllReduce> device_all_reduce(Group& group, const Gpu& gpu,
                                                   const DeviceAllReduceSettings& settings);

}  // namespace deltasane::comm
