#include "eval/stream/problem_probe.h"

#include "corpus/math/answer.h"
#include "infer/engine/engine.h"

namespace deltasane {

ProbeOutcome ProblemProbe::operator()(const SequenceState& state, int64_t count) const {
  ProbeOutcome outcome;
  for (const AskedProblem& one : ask(state, count)) ++outcome.asked, outcome.correct += one.right;
  return outcome;
}

std::vector<AskedProblem> ProblemProbe::ask(const SequenceState& state, int64_t count) const {
  std::vector<AskedProblem> asked;
  int64_t answered = 0;
  if (told) told(answered, count);
  Engine engine(model, tokenizer, cpu,
                {.stops = {"\n\n"},
                 .tokens = answer_tokens,
                 .batch = model.on_gpu() ? 64 : 16,
                 .on_overflow = OnOverflow::end,
                 .batch_invariant = true});
  engine.on_end = [&](const GeneratedText& answer) {
    AskedProblem& one = asked[answer.request];
    one.written = answer.text;
    one.right = corpus::answer_is_correct(one.written, one.known);
    if (told) told(++answered, count);
  };
  engine.run([&]() -> std::optional<TextRequest> {
    if (int64_t(asked.size()) == count) return std::nullopt;
    const corpus::Problem problem = corpus::math_problem(problems, asked.size());
    asked.push_back({problem.question, "", problem.answer});
    // The empty line ends what the stream was in the middle of.
    return TextRequest{asked.size() - 1, state.clone(),
                       tokenizer.encode(lead_in + corpus::chat_prompt(problem.question)),
                       {Sampler(SamplerSettings{.temperature = 0})}};
  });
  return asked;
}

}  // namespace deltasane
