// For tests: forward calls that want one thing, and the parts of a state by their kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/language_model.h"

namespace deltasane::test {

// One sequence: its state alone, the logits after the last token, or those after each.
inline void read(const LanguageModel& model, std::span<const int32_t> tokens, SequenceState& state,
                 const kernel::Cpu& cpu, TauRecord* taus = nullptr) {
  SequenceInput input{tokens, &state};
  input.taus = taus;
  model.forward(input, cpu);
}

inline void read_last(const LanguageModel& model, std::span<const int32_t> tokens,
                      SequenceState& state, const View<float>& logits, const kernel::Cpu& cpu,
                      TauRecord* taus = nullptr) {
  SequenceInput input{tokens, &state, Want::last_logits, logits};
  input.taus = taus;
  model.forward(input, cpu);
}

inline void read_all(const LanguageModel& model, std::span<const int32_t> tokens,
                     SequenceState& state, const View<float>& logits, const kernel::Cpu& cpu,
                     TauRecord* taus = nullptr) {
  SequenceInput input{tokens, &state, Want::all_logits, logits};
  input.taus = taus;
  model.forward(input, cpu);
}

// One token of each of several sequences. logits: (sequence, vocabulary)
inline void step(const LanguageModel& model, std::span<const int32_t> tokens,
                 std::span<SequenceState* const> states, const View<float>& logits,
                 const kernel::Cpu& cpu) {
  std::vector<SequenceInput> batch;
  for (size_t i = 0; i < tokens.size(); ++i)
    batch.push_back(
        {tokens.subspan(i, 1), states[i], Want::last_logits, logits.slice(0, int64_t(i), 1)});
  model.forward(batch, cpu);
}

// A sequence whose losses are wanted.
inline SequenceInput scored(std::span<const int32_t> tokens, std::span<const int32_t> targets,
                            SequenceState& state, std::span<double> losses,
                            TauRecord* taus = nullptr, AdaptiveSane* adaptive = nullptr) {
  SequenceInput input{tokens, &state, Want::losses};
  input.targets = targets, input.losses = losses;
  input.taus = taus, input.adaptive = adaptive;
  return input;
}

inline std::shared_ptr<const StateLayout> uniform_layout(int64_t layers, int64_t channels,
                                                         int64_t heads, int64_t head_size) {
  return std::make_shared<const StateLayout>(
      shifts_and_square_heads(layers, channels, heads, head_size));
}

// All parts of one kind, which lie side by side: from the first float on, so many.
struct FloatRange {
  size_t first = 0, count = 0;
};
inline FloatRange range_of(const StateLayout& layout, StateKind kind) {
  FloatRange range;
  for (const StatePart& part : layout.parts()) {
    if (part.kind != kind) continue;
    if (range.count == 0) range.first = size_t(part.offset);
    require(size_t(part.offset) == range.first + range.count, "parts of a kind lie side by side");
    range.count += size_t(part.floats());
  }
  return range;
}
inline std::span<const float> of_kind(const SequenceState& state, StateKind kind) {
  const FloatRange range = range_of(state.layout(), kind);
  return state.fixed().subspan(range.first, range.count);
}
inline std::span<float> mutable_of_kind(SequenceState& state, StateKind kind) {
  const FloatRange range = range_of(state.layout(), kind);
  return state.mutable_fixed().subspan(range.first, range.count);
}

// (layer, head, value, key) and (layer, 2, channel) of layers that are alike.
inline std::span<const float> memories(const SequenceState& state) {
  return of_kind(state, StateKind::memory);
}
inline std::span<const float> shifts(const SequenceState& state) {
  return of_kind(state, StateKind::shift);
}
inline std::span<float> mutable_memories(SequenceState& state) {
  return mutable_of_kind(state, StateKind::memory);
}
inline std::span<float> mutable_shifts(SequenceState& state) {
  return mutable_of_kind(state, StateKind::shift);
}
inline View<float> memory_view(SequenceState& state) {
  const StateHead& last = state.layout().heads().back();
  return {mutable_memories(state).data(), {last.layer + 1, last.head + 1, last.rows, last.columns}};
}
inline View<float> shift_view(SequenceState& state) {
  const int64_t layers = state.layout().layers();
  const std::span<float> all = mutable_shifts(state);
  return {all.data(), {layers, 2, int64_t(all.size()) / (2 * layers)}};
}

}  // namespace deltasane::test
