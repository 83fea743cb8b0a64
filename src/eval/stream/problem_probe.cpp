#include "eval/stream/problem_probe.h"

#include <algorithm>
#include <cctype>

namespace deltasane {
namespace {

constexpr int64_t at_once = 16;  // problems side by side; each has a state of its own

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The last run of digits, with a sign, a point or a slash where they belong to it.
std::string last_number(std::string_view text) {
  size_t end = text.size();
  while (end > 0 && !is_digit(text[end - 1])) --end;
  size_t begin = end;
  while (begin > 0) {
    const char c = text[begin - 1];
    const bool inside = begin < end && is_digit(text[begin]) && (c == '.' || c == ',' || c == '/');
    if (!is_digit(c) && !(inside && begin > 1 && is_digit(text[begin - 2]))) break;
    --begin;
  }
  const bool after_number = begin > 1 && is_digit(text[begin - 2]);
  if (begin < end && begin > 0 && text[begin - 1] == '-' && !after_number) --begin;
  return std::string(text.substr(begin, end - begin));
}

std::string without_commas(std::string text) {
  std::erase(text, ',');
  return text;
}

struct Conversation {
  RecurrentState state;
  AskedProblem problem;
  std::string answer;
  int32_t next = 0;
  bool ended = false;
};

}  // namespace

bool answer_is_right(std::string_view written, std::string_view known) {
  constexpr std::string_view box = "\\boxed{";
  std::string found;
  if (const size_t at = written.rfind(box); at != written.npos) {
    const size_t from = at + box.size();
    found = std::string(written.substr(from, written.find('}', from) - from));
  } else {
    found = last_number(written);
  }
  return without_commas(found) == without_commas(std::string(known));
}

ProbeOutcome ProblemProbe::operator()(const RecurrentState& state, int64_t count) const {
  ProbeOutcome outcome;
  for (const AskedProblem& one : ask(state, count)) ++outcome.asked, outcome.correct += one.right;
  return outcome;
}

std::vector<AskedProblem> ProblemProbe::ask(const RecurrentState& state, int64_t count) const {
  std::vector<AskedProblem> asked;
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
      one.problem.right = answer_is_right(one.problem.written, one.problem.known);
      asked.push_back(std::move(one.problem));
    }
  }
  return asked;
}

}  // namespace deltasane
