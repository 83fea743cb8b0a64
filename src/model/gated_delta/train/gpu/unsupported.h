// What the operators of training on a GPU do not have; fails and says what to do instead. Needs no GPU.
#pragma once

#include "model/gated_delta/config.h"

namespace deltasane::gated_delta::gpu {

void expect_trainable(const Config& config);

}  // namespace deltasane::gated_delta::gpu
