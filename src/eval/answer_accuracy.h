// How many problems of a math-chat corpus a model answers rightly, decoding greedily: what training
// reports between steps.
#pragma once

#include <cstdint>
#include <string_view>

#include "model/language_model.h"
#include "text/tokenizer.h"

namespace deltasane::eval {

// The first `problems` of `description` ("math-chat:..."). Answers end at an empty line.
double answer_accuracy(const LanguageModel& model, const Tokenizer& tokenizer,
                       std::string_view description, int64_t problems, int64_t longest_answer,
                       const kernel::Cpu& cpu);

}  // namespace deltasane::eval
