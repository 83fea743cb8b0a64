// The parameters of a model of the delta-rule family in the order of its tensor table, with their roles.
//
// A_log and dt_bias are vectors, which no recipe decays, as in flash-linear-attention. A router's bias
// that only chooses is a parameter without a gradient.
#pragma once

#include "model/gated_delta/checkpoint/checkpoint.h"
#include "model/train/parameters.h"

namespace deltasane::gated_delta {

ParameterLayout parameter_layout(const Config& config);

// As inference reads them; good for as long as they live.
Checkpoint as_checkpoint(const Config& config, const Parameters& parameters);

}  // namespace deltasane::gated_delta
