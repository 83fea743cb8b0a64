// Sums over the processes of a job of numbers that lie on their GPUs, one GPU for each process.
//
// NCCL adds up between the GPUs; without it the numbers go through the host, over the group. Both
// work on a queue of their own, beside the GPU's.
//
// This header needs no CUDA; what it declares is defined in builds with CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/group.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::comm {

class DeviceSums {
 public:
  virtual ~DeviceSums() = default;

  // Begins to add up `count` floats on the GPU over all processes, in place, as soon as all that
  // was asked of the GPU so far is done. They may not be touched before finish(); other work goes
  // on. All processes begin the same sums in the same order.
  virtual void begin(float* numbers, int64_t count) = 0;
  // What is asked of the GPU next starts after all sums that were begun. Waits where the host has
  // a part in them.
  virtual void finish() = 0;
  // The host, until the sums are made. Fails where another process has ended, and cannot take part.
  virtual void wait() = 0;

  virtual std::string name() const = 0;  // who adds up
};

enum class SumsBy { best, nccl, host };  // best: NCCL where it is there

struct DeviceSumsSettings {
  SumsBy by = SumsBy::best;
  bool share_gpu = false;  // whether processes may work on one GPU
};

// Fails on all processes where two work on one GPU that may not. None for one process alone, unless
// it asks for a way by name.
std::unique_ptr<DeviceSums> device_sums(Group& group, const Gpu& gpu,
                                        const DeviceSumsSettings& settings);

}  // namespace deltasane::comm
