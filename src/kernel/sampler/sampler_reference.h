// For tests: the sampler's definition, slow and in double. Sorts everything, keeps no state.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "kernel/sampler/sampler_settings.h"
#include "kernel/sampler/sampler_state.h"

namespace deltasane::test {

struct ReferenceDistribution {
  std::map<int32_t, double> probability;  // of the tokens that may be drawn
  // How near the nucleus' mass comes to top-p without or with its last token: where this is tiny, a
  // float may count one token more or less.
  double margin = 1;
};

ReferenceDistribution reference_distribution(std::span<const float> logits,
                                             const SamplerSettings& settings,
                                             std::span<const TokenCount> counts = {});

}  // namespace deltasane::test
