// gated_terms() for either kind of decay.
#pragma once

#include <algorithm>

#include "kernel/delta_rule/gated_cuda/passes.h"

namespace deltasane::kernel::cuda {

// Blocks for so many: all of them, or as many of each multiprocessor as there is room for beside the
// pass over the states.
inline unsigned terms_blocks(const GatedPass& pass, int64_t all, int beside, const Gpu& gpu) {
  const int64_t resident = int64_t{beside} * gpu.properties().multiprocessors;
  return unsigned(pass.progress.ready ? std::min(all, resident) : all);
}

void per_head_terms(const GatedPass& pass, const Gpu& gpu);
void per_channel_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
