// What benchmarks of whole models share: the limits of the device a model is on, what its maths
// needs, and the memory it takes.
#pragma once

#include <string>

#include "cli/open_model.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::cli {

// On the CPU a plain read of memory and a loop of multiply-adds; on a GPU a copy within its memory
// and one large bf16 product. Measured now.
struct DeviceLimits {
  std::string bytes_name, flops_name;  // "read", "multiply_add"
  double bytes_per_second = 0, flops_per_second = 0;
};
DeviceLimits limits_of(OpenModel& open);
DeviceLimits limits_of(ThreadPool& threads, kernel::Isa isa);
DeviceLimits limits_of(const Gpu& gpu);  // in a build with CUDA

// The instruction set of --isa, or the widest that this machine has where none is given.
kernel::Isa chosen_isa(const std::string& name);

// "cuda:0, NVIDIA H200", or "2 thread(s)".
std::string device_text(const OpenModel& open);

// A state, read and written.
double state_bytes(const StateLayout& layout);

// Memory in use: the largest resident of this process so far; on a GPU, all that is taken there.
double resident_bytes(const OpenModel& open);

}  // namespace deltasane::cli
