#include "eval/answer_accuracy.h"

#include "eval/stream/problem_probe.h"

namespace deltasane::eval {

double answer_accuracy(const LanguageModel& model, const Tokenizer& tokenizer,
                       std::string_view description, int64_t problems, int64_t longest_answer,
                       const kernel::Cpu& cpu) {
  constexpr std::string_view kind = "math-chat:";
  require(description.starts_with(kind), "answers are judged on math-chat");
  ProblemProbe probe{model, tokenizer, cpu, corpus::math_options(description.substr(kind.size())),
                     longest_answer};
  probe.lead_in.clear();
  const ProbeOutcome found = probe(model.fresh_state(), problems);
  return found.asked ? double(found.correct) / double(found.asked) : 0;
}

}  // namespace deltasane::eval
