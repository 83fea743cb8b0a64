// The operator's benchmark on a GPU: bf16 in and out, at the usual shapes.
#pragma once

#include <functional>
#include <vector>

#include "kernel/delta_rule/bench/bench.h"
#include "tensor/cuda/gpu.h"

namespace deltasane::kernel::cuda {

// Forward, forward that saves the states for backward, and backward, alternating without and with
// SANE. Times are the GPU's own, of the median run.
std::vector<DeltaRuleMeasurement> bench_delta_rule(const Gpu& gpu, double tau);

// Likewise for the rules of gated_cuda/, and a single token.
std::vector<DeltaRuleMeasurement> bench_gated(const Gpu& gpu, Rule rule, int64_t keys,
                                              int64_t values, double tau);

// Adds the rows of run(sane) without and with SANE, which alternate; `row` says what is run.
void add_pair(std::vector<DeltaRuleMeasurement>& rows, DeltaRuleMeasurement row,
              const std::function<void(bool)>& run, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
