// A ragged batch cut into passes over the layers, for models on the CPU: each input of several tokens
// by itself, in blocks, and the single tokens of all other sequences in one pass. What is made of the
// logits (losses, the likeliest tokens, samples) is made here.
#pragma once

#include <functional>

#include "model/language_model.h"

namespace deltasane {

enum class Logits { none, last, all };  // which tokens' logits are wanted

// `time` tokens of each of several sequences; sequence i has the tokens [i * time, (i + 1) * time).
// The states, with their positions, are carried on by the pass.
struct ForwardPass {
  std::span<SequenceState* const> states;
  int64_t time;
  std::span<const int32_t> tokens;
  Logits wanted;       // last: with one sequence
  View<float> logits;  // of the wanted tokens
  TauRecord* taus;     // with one sequence
};

void run_in_passes(const LanguageModel& model, std::span<const SequenceInput> batch,
                   const kernel::Cpu& cpu, const std::function<void(const ForwardPass&)>& run);

}  // namespace deltasane
