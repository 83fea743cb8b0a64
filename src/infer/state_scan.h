// Looks for numbers of a state that left the finite range, and names their place.
//
// A sequence whose state holds an infinity or a NaN is lost: every later token reads it. So a state
// is scanned at chunk boundaries, and what happens then is a policy: stop with an error, or reset
// the state to zero and continue. Scans run at the speed of memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/state/sequence_state.h"

namespace deltasane {

struct StatePlace {
  std::string part;             // its name in the layout
  int64_t layer = 0;
  std::optional<int64_t> head;  // of a memory
  std::optional<int64_t> row;   // of a memory: value; of a cache: token; of a convolution: tap
  int64_t column = 0;           // of a memory: key; else the index in its row
  float value = 0;              // what stands there: an infinity or a NaN
};

struct StateScan {
  std::optional<StatePlace> not_finite;  // the first; memories before other parts
  float largest = 0;                     // |S| over the memories; infinity where it is not finite
  bool finite() const { return !not_finite; }
};

StateScan scan_state(const SequenceState& state);

// Largest |value|; infinity if one is an infinity or a NaN.
float largest_magnitude(std::span<const float> values);

enum class OnOverflow { stop, reset, end };  // end: of the sequence; not for users
std::string_view name_of(OnOverflow policy);
OnOverflow on_overflow_named(std::string_view name);  // "stop" or "reset"; anything else fails

// What to tell the user; `position` is that of the last token read.
std::string overflow_message(const StatePlace& place, int64_t position);

}  // namespace deltasane
