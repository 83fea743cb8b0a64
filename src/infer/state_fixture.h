// For tests: a small state with everything that a state file can hold.
#pragma once

#include <cmath>
#include <cstdint>

#include "infer/state_file.h"

namespace deltasane::test {

inline RecurrentState example_state(int seed) {
  RecurrentState state({2, 6, 2, 3});
  state.position = 1000 + seed;
  for (int64_t i = 0; i < state.memory().elements(); ++i)
    state.mutable_memory()[i] = float(std::sin(seed * 100 + i));
  for (int64_t i = 0; i < state.shift().elements(); ++i)
    state.mutable_shift()[i] = float(std::cos(seed * 100 + i));
  return state;
}

inline StateStamp example_stamp() {
  StateStamp stamp;
  stamp.model_identity = 1234567890123;
  stamp.model_name = "small \xf0\x9f\x90\xa6";
  stamp.sane = {SaneKind::run_time, 3, 16};
  stamp.last_token = 42;
  stamp.sampler = {std::byte{1}, std::byte{2}, std::byte{0}};
  stamp.creator = "test 1.0";
  return stamp;
}

inline StateExpectation example_expectation() {
  return {1234567890123, "small", {2, 6, 2, 3}, {SaneKind::run_time, 3, 16}};
}

}  // namespace deltasane::test
