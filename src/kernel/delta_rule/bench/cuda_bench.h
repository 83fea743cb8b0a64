// The operator's benchmark on a GPU: bf16 in and out, at the usual shapes.
#pragma once

#include <vector>

#include "kernel/delta_rule/bench/bench.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// Forward, forward that saves the states for backward, and backward, alternating without and with
// SANE. Times are the GPU's own, of the median run.
std::vector<DeltaRuleMeasurement> bench_delta_rule(const Gpu& gpu, double tau);

}  // namespace deltasane::kernel::cuda
