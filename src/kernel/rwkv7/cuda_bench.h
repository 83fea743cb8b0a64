// The row operations on a GPU, in bf16: what each must move, and how long it took. To be held
// against the copy of gpu_limits.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/timing.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel {

struct GpuRowsMeasurement {
  std::string operation;
  int64_t rows, channels;
  double bytes;  // the least the maths needs: inputs read once, outputs written once
  Timing timing;

  double bytes_per_second() const { return bytes / timing.median; }
};

// 8 sequences of 4096 tokens, 1024 channels.
std::vector<GpuRowsMeasurement> bench_gpu_rows(const Gpu& gpu);

}  // namespace deltasane::kernel
