// The operator's benchmark cases: what each must compute and move, and how long it took.
#pragma once

#include <cstdint>
#include <vector>

#include "base/timing.h"
#include "kernel/bench/cpu_limits.h"
#include "kernel/matmul/matmul.h"

namespace deltasane::kernel {

struct MatmulMeasurement {
  WeightType type;
  int64_t tokens, out, in;
  double bytes, flops;  // the least the maths needs: weights and x read once, y written once
  Timing timing;

  double flops_per_second() const { return flops / timing.median; }
  double bytes_per_second() const { return bytes / timing.median; }
  // Fractions of the machine's limits. q8 multiplies 8-bit numbers, and may exceed the first.
  double of_arithmetic(const MachineLimits& limits) const {
    return flops_per_second() / limits.multiply_add_flops_per_second;
  }
  double of_memory(const MachineLimits& limits) const {
    return bytes_per_second() / limits.read_bytes_per_second;
  }
};

// The matrices of a model of 1024 channels (square, in and out of the channel mix, vocabulary), for
// 1, 8 and 512 tokens. With few tokens the weights are not in the caches, as in a model.
std::vector<MatmulMeasurement> bench_matmul(const Cpu& cpu);

}  // namespace deltasane::kernel
