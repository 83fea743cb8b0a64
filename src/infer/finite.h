// Looks for numbers that left the finite range, in a state and in logits, and says what to do.
//
// A sequence whose state holds an infinity or a NaN is lost: every later token reads it. So a
// state is scanned at chunk boundaries, and what happens then is a policy: stop with an error, or
// reset the state to zero and go on. Scans run at the speed of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/recurrent_state.h"

namespace deltasane {

enum class StatePart { memory, time_shift, channel_shift };

struct StatePlace {
  StatePart part = StatePart::memory;
  int64_t layer = 0;
  int64_t head = 0, row = 0;  // of the memory; 0 in a shift
  int64_t column = 0;         // the key of the memory, the channel of a shift
  float value = 0;            // what stands there: an infinity or a NaN
};

struct StateScan {
  std::optional<StatePlace> not_finite;  // the first; memory before shifts
  float largest = 0;                     // |S| over the memory; infinity where it is not finite
  bool finite() const { return !not_finite; }
};

StateScan scan_state(const RecurrentState& state);

// In logits, -inf means "this token is banned" and is allowed. NaN and +inf are not.
struct LogitsScan {
  float largest;                        // -inf when all are banned, or none are there
  std::optional<int64_t> first_broken;  // token; `largest` means nothing then
};

LogitsScan scan_logits(std::span<const float> logits);

// Largest |value|; infinity if one is an infinity or a NaN.
float largest_magnitude(std::span<const float> values);

enum class OnOverflow { stop, reset };
std::string_view name_of(OnOverflow policy);
OnOverflow on_overflow_named(std::string_view name);  // "stop" or "reset"; anything else fails

// What to tell the user; `position` is that of the last token read.
std::string overflow_message(const StatePlace& place, int64_t position);
// Of a token's logit.
std::string overflow_message(int64_t token, float logit, std::optional<int64_t> position);

}  // namespace deltasane
