// Asks held-out problems from a state and counts right answers.
//
// Problem i of a probe is problem i of the held-out source, the same ones every time, so that
// numbers along a stream can be compared. The answer is written greedily, up to an empty line, and
// judged as corpus/math/answer.h says.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/math/chat.h"
#include "eval/stream/stream_run.h"

namespace deltasane {

struct AskedProblem {
  std::string question, written, known;
  bool right = false;
};

struct ProblemProbe {
  const LanguageModel& model;
  const Tokenizer& tokenizer;
  kernel::Cpu cpu;
  corpus::MathOptions problems;  // split is held_out
  int64_t answer_tokens = 200;   // at most
  std::string lead_in = "\n\n";  // what ends the text that the state was in the middle of
  std::function<void(int64_t answered, int64_t count)> told = {};  // as the answers come; may be empty

  ProbeOutcome operator()(const SequenceState& state, int64_t count) const;
  std::vector<AskedProblem> ask(const SequenceState& state, int64_t count) const;
};

}  // namespace deltasane
