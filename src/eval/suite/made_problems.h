// Problems that the program makes itself: those of the corpus math-chat, held out from training,
// one benchmark for each level.
#pragma once

#include <string_view>
#include <vector>

#include "eval/suite/suite.h"

namespace deltasane::eval {

// `options` as behind "math-chat:" in the description of a corpus; split=held-out if not said.
std::vector<Benchmark> make_math_chat(std::string_view options, int64_t problems);

}  // namespace deltasane::eval
