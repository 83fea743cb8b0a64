// Which rows of a cache a window leaves behind: whole tiles after the first one, which has the tokens
// that a window keeps. What is left are the rows of the first tile and the newest ones, so tiles stay
// what they were, and bits with them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "model/state/sequence_state.h"

namespace deltasane {

inline constexpr int64_t cache_tile = 32;  // rows that attention takes at a time

// At a position.
inline int64_t dropped_rows(int64_t position, int64_t window) {
  return cache_tile * std::max<int64_t>(0, (position + 1 - window) / cache_tile - 1);
}

// A state that was made with another window lacks rows, or has some too many: fails, and says so.
inline void expect_cached_rows(const SequenceState& state, int64_t dropped) {
  for (int64_t i = 0; i < state.layout().caches(); ++i) {
    const int64_t found = int64_t(state.cache(i).size()) / state.layout().cache(i).floats();
    if (found != state.position - dropped)
      fail(Fault::argument, "state: expected ", state.position - dropped,
           " cached rows at position ", state.position, ", found ", found,
           ": it was made with another attention window; give that one");
  }
}

}  // namespace deltasane
