#include "train/answer_accuracy.h"

#include <algorithm>
#include <vector>

#include "corpus/math_answer.h"
#include "corpus/math_chat.h"

namespace deltasane::train {
namespace {

int32_t likeliest(std::span<const float> logits) {
  return int32_t(std::ranges::max_element(logits) - logits.begin());
}

struct Attempt {
  std::string expected, written;
  RecurrentState state;
  int32_t next = 0;
};

// Whether the answer goes on after this token.
bool extend(Attempt& attempt, const Tokenizer& tokenizer) {
  attempt.written += tokenizer.bytes_of(attempt.next);
  const size_t end = attempt.written.find("\n\n");
  if (end == std::string::npos || end == 0) return true;
  attempt.written.resize(end);
  return false;
}

// A few problems at a time: a prompt by itself, then one token for all that have not ended.
int64_t right_answers(const Rwkv7& model, const Tokenizer& tokenizer,
                      const corpus::MathOptions& options, int64_t from, int64_t to,
                      int64_t longest_answer, const kernel::Cpu& cpu) {
  const int64_t vocabulary = model.shape().vocabulary;
  std::vector<Attempt> attempts;
  Tensor<float> logits({to - from, vocabulary});
  for (int64_t i = from; i < to; ++i) {
    const corpus::Problem problem = corpus::math_problem(options, uint64_t(i));
    Attempt attempt{problem.answer, {}, model.fresh_state()};
    model.forward(tokenizer.encode(corpus::chat_prompt(problem.question)), attempt.state,
                  Rwkv7::Logits::last, logits.view().part(0, 0, 1), cpu);
    attempt.next = likeliest({logits.data(), size_t(vocabulary)});
    attempts.push_back(std::move(attempt));
  }
  std::vector<Attempt*> open;
  for (Attempt& attempt : attempts)
    if (extend(attempt, tokenizer)) open.push_back(&attempt);
  for (int64_t length = 1; length < longest_answer && !open.empty(); ++length) {
    std::vector<int32_t> tokens;
    std::vector<RecurrentState*> states;
    for (Attempt* attempt : open)
      tokens.push_back(attempt->next), states.push_back(&attempt->state);
    const View<float> here = logits.view().part(0, 0, int64_t(open.size()));
    model.step(tokens, states, here, cpu);
    for (size_t i = 0; i < open.size(); ++i)
      open[i]->next = likeliest({here.at(int64_t(i)), size_t(vocabulary)});
    std::erase_if(open, [&](Attempt* attempt) { return !extend(*attempt, tokenizer); });
  }
  return std::ranges::count_if(attempts, [](const Attempt& attempt) {
    return corpus::answer_is_right(attempt.written, attempt.expected);
  });
}

}  // namespace

double answer_accuracy(const Rwkv7& model, const Tokenizer& tokenizer, std::string_view description,
                       int64_t problems, int64_t longest_answer, const kernel::Cpu& cpu) {
  constexpr std::string_view kind = "math-chat:";
  require(description.starts_with(kind), "answers are judged on math-chat");
  const corpus::MathOptions options = corpus::math_options(description.substr(kind.size()));
  constexpr int64_t together = 64;
  int64_t right = 0;
  for (int64_t from = 0; from < problems; from += together)
    right += right_answers(model, tokenizer, options, from, std::min(problems, from + together),
                           longest_answer, cpu);
  return problems ? double(right) / double(problems) : 0;
}

}  // namespace deltasane::train
