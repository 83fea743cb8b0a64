// gated_terms() for either kind of decay.
#pragma once

#include "kernel/delta_rule/gated_cuda/passes.h"

namespace deltasane::kernel::cuda {

void per_head_terms(const GatedPass& pass, const Gpu& gpu);
void per_channel_terms(const GatedPass& pass, TermsFor direction, const Gpu& gpu);

}  // namespace deltasane::kernel::cuda
