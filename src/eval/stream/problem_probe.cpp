#include "eval/stream/problem_probe.h"

#include <algorithm>
#include <map>

#include "corpus/math_answer.h"

namespace deltasane {
namespace {

struct Conversation {
  RecurrentState state;
  AskedProblem problem;
  std::vector<int32_t> prompt;
  std::string answer;
  int32_t next = 0;
  bool ended = false;
};

// logits: (talks, vocabulary), after each prompt.
void read_prompts(std::span<Conversation> talks, View<float> logits, const Rwkv7& model,
                  const kernel::Cpu& cpu) {
  if (!model.on_gpu()) {
    for (size_t i = 0; i < talks.size(); ++i)
      model.forward(talks[i].prompt, talks[i].state, Rwkv7::Logits::last,
                    logits.part(0, int64_t(i), 1), cpu);
    return;
  }
  // Few passes, not one per prompt: prompts of one length side by side, then the last token of all.
  std::map<size_t, std::vector<Conversation*>> of_length;
  for (Conversation& one : talks) of_length[one.prompt.size()].push_back(&one);
  for (const auto& [length, group] : of_length) {
    if (length < 2) continue;
    std::vector<double> losses(length - 1);  // nobody asks for them
    std::vector<Rwkv7::Scored> sequences;
    for (Conversation* const one : group) {
      const std::span<const int32_t> prompt = one->prompt;
      sequences.push_back({prompt.first(length - 1), prompt.last(length - 1), &one->state, losses});
    }
    model.read_and_score(sequences, cpu);
  }
  std::vector<int32_t> last;
  std::vector<RecurrentState*> states;
  for (Conversation& one : talks) last.push_back(one.prompt.back()), states.push_back(&one.state);
  model.step(last, states, logits, cpu);
}

}  // namespace

ProbeOutcome ProblemProbe::operator()(const RecurrentState& state, int64_t count) const {
  ProbeOutcome outcome;
  for (const AskedProblem& one : ask(state, count)) ++outcome.asked, outcome.correct += one.right;
  return outcome;
}

std::vector<AskedProblem> ProblemProbe::ask(const RecurrentState& state, int64_t count) const {
  std::vector<AskedProblem> asked;
  // Problems side by side; each has a state of its own.
  const int64_t at_once = model.on_gpu() ? 64 : 16;
  const int64_t vocabulary = model.shape().vocabulary;
  const auto likeliest = [&](const float* logits) {
    return int32_t(std::max_element(logits, logits + vocabulary) - logits);
  };
  const auto hear = [&](Conversation& one, const float* logits) {
    one.next = likeliest(logits);
    if (one.next == tokenizer.end_of_document()) one.ended = true;
    one.answer += tokenizer.bytes_of(one.next);
    if (one.answer.find("\n\n") != std::string::npos) one.ended = true;
  };
  for (int64_t from = 0; from < count; from += at_once) {
    std::vector<Conversation> talks(size_t(std::min(at_once, count - from)));
    for (size_t i = 0; i < talks.size(); ++i) {
      const corpus::Problem problem = corpus::math_problem(problems, uint64_t(from) + i);
      talks[i].problem = {problem.question, "", problem.answer};
      talks[i].state = state.clone();
      // The empty line ends what the stream was in the middle of.
      talks[i].prompt = tokenizer.encode("\n\n" + corpus::chat_prompt(problem.question));
    }
    Tensor<float> first({int64_t(talks.size()), vocabulary});
    read_prompts(talks, first.view(), model, cpu);
    for (size_t i = 0; i < talks.size(); ++i) hear(talks[i], first.view().at(int64_t(i)));
    for (int64_t written = 1; written < answer_tokens; ++written) {
      std::vector<int32_t> tokens;
      std::vector<RecurrentState*> states;
      std::vector<Conversation*> going;
      for (Conversation& one : talks)
        if (!one.ended)
          tokens.push_back(one.next), states.push_back(&one.state), going.push_back(&one);
      if (going.empty()) break;
      Tensor<float> logits({int64_t(going.size()), vocabulary});
      model.step(tokens, states, logits.view(), cpu);
      for (size_t i = 0; i < going.size(); ++i) hear(*going[i], logits.view().at(int64_t(i)));
    }
    for (Conversation& one : talks) {
      one.problem.written = one.answer.substr(0, one.answer.find("\n\n"));
      one.problem.right = corpus::answer_is_right(one.problem.written, one.problem.known);
      asked.push_back(std::move(one.problem));
    }
  }
  return asked;
}

}  // namespace deltasane
