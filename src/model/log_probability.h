// log softmax of one entry, in double: logits of 65,536 entries lose digits in float.
#pragma once

#include <cstdint>
#include <span>

namespace deltasane {

double log_probability(std::span<const float> logits, int32_t token);

}  // namespace deltasane
