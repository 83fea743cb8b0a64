// Logits for the sampler's tests.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"

namespace deltasane::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

inline std::vector<float> normal_logits(int64_t count, double deviation, uint64_t seed) {
  Random random(seed);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& logit : logits) logit = float(deviation * random.normal());
  return logits;
}

}  // namespace deltasane::test
