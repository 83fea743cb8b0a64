// For tests: small states with everything that a state file can hold.
#pragma once

#include <cmath>
#include <cstdint>

#include "infer/state_file.h"
#include "model/fixture_forward.h"
#include "support/fixture_bytes.h"

namespace deltasane::test {

inline std::shared_ptr<const StateLayout> example_layout() { return uniform_layout(2, 6, 2, 3); }

inline SequenceState example_state(int seed) {
  SequenceState state(example_layout());
  state.position = 1000 + seed;
  const auto memory = mutable_memories(state), shift = mutable_shifts(state);
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = float(std::sin(seed * 100 + int64_t(i)));
  for (size_t i = 0; i < shift.size(); ++i) shift[i] = float(std::cos(seed * 100 + int64_t(i)));
  return state;
}

// Layers of several kinds: a cache of three tokens and one of none, a convolution, a shift, and a
// memory that is not square.
inline SequenceState mixed_state(int seed) {
  StateLayout layout;
  layout.add("keys", StateKind::cache, 0, {2, 3});
  layout.add("conv", StateKind::convolution, 1, {2, 4});
  layout.add("shift", StateKind::shift, 2, {5});
  layout.add("memory", StateKind::memory, 1, {2, 3, 2});
  layout.add("values", StateKind::cache, 0, {4});
  SequenceState state(std::make_shared<const StateLayout>(std::move(layout)));
  state.position = 1000 + seed;
  state.mutable_cache(0).resize(3 * 6);
  int64_t i = seed * 100;
  for (float& number : state.mutable_fixed()) number = float(std::sin(i++));
  for (float& number : state.mutable_cache(0)) number = float(std::cos(i++));
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
  return {1234567890123, "small", example_layout(), {SaneKind::run_time, 3, 16}};
}

}  // namespace deltasane::test
