// The tokens of a call, cut into runs (kernels.h) at padding and where tiles and chunks end.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/delta_rule/cpu/kernels.h"
#include "kernel/delta_rule/delta_rule.h"

namespace deltasane::kernel {

std::vector<cpu::Run> runs_of(const DeltaRule<float>& op, int64_t batch);

}  // namespace deltasane::kernel
