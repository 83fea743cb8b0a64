// The operator's benchmark on a GPU: bf16 in and out, at the shapes everyone compares.
#pragma once

#include <vector>

#include "kernel/delta_rule/bench.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// Forward, forward keeping the states for the way back, and backward, without and with SANE, in
// turns. Times are the GPU's own, of the median run.
std::vector<DeltaRuleMeasurement> bench_delta_rule(const Gpu& gpu, double tau);

}  // namespace deltasane::kernel::cuda
