// How long sampling a token takes, on one thread.
#pragma once

#include <cstdint>

#include "base/timing.h"
#include "kernel/sampler/sampler_settings.h"

namespace deltasane {

// Times one token. The logits are normal numbers with the given deviation: about 3 for a trained
// model, 0 for a distribution with the largest nucleus there is.
Timing measure_sampler(const SamplerSettings& settings, int64_t vocabulary, double deviation,
                       double seconds);

}  // namespace deltasane
