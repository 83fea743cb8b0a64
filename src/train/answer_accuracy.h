// How many problems of a math-chat corpus a model answers rightly, decoding greedily.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernel/cpu_device.h"
#include "model/rwkv7/model.h"
#include "text/tokenizer.h"

namespace deltasane::train {

// The first `problems` of `description` ("math-chat:..."). Answers end at an empty line.
double answer_accuracy(const Rwkv7& model, const Tokenizer& tokenizer, std::string_view description,
                       int64_t problems, int64_t longest_answer, const kernel::Cpu& cpu);

}  // namespace deltasane::train
