// Looks for logits that are not numbers to sample from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace deltasane {

// In logits, -inf means "this token is banned" and is allowed. NaN and +inf are not.
struct LogitsScan {
  float largest;                        // -inf when all are banned, or none are there
  std::optional<int64_t> first_broken;  // token; `largest` means nothing then
};
LogitsScan scan_logits(std::span<const float> logits);

// Of a token's logit.
std::string overflow_message(int64_t token, float logit, std::optional<int64_t> position);

std::string float_name(float value);  // of one that is not finite: NaN, infinity, -infinity

}  // namespace deltasane
