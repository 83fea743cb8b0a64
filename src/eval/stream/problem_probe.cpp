#include "eval/stream/problem_probe.h"

#include <algorithm>

#include "corpus/math_answer.h"

namespace deltasane {
namespace {

struct Conversation {
  RecurrentState state;
  AskedProblem problem;
  std::string answer;
  int32_t next = 0;
  bool ended = false;
};

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
      Tensor<float> logits({1, vocabulary});
      // The empty line ends what the stream was in the middle of.
      const auto prompt = tokenizer.encode("\n\n" + corpus::chat_prompt(problem.question));
      model.forward(prompt, talks[i].state, Rwkv7::Logits::last, logits.view(), cpu);
      hear(talks[i], logits.data());
    }
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
