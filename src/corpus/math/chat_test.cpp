#include "corpus/math/chat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/cat.h"
#include "support/errors.h"

namespace deltasane::corpus {
namespace {

// An independent evaluator of arithmetic text with the unknown x, to check the answers.
class Calculator {
 public:
  Calculator(std::string_view text, int64_t x) : text_(text), x_(x) {}

  std::optional<int64_t> value() {
    const int64_t value = sum();
    skip();
    if (bad_ || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool next(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  int64_t sum() {
    int64_t value = product();
    for (;;) {
      if (next('+'))
        value += product();
      else if (next('-'))
        value -= product();
      else
        return value;
    }
  }
  int64_t product() {
    int64_t value = factor();
    for (;;) {
      if (next('*')) {
        value *= factor();
      } else if (next('/')) {
        const int64_t divisor = factor();
        bad_ = bad_ || divisor == 0 || value % divisor != 0;
        if (bad_) return 0;
        value /= divisor;
      } else {
        return value;
      }
    }
  }
  int64_t factor() {
    if (next('-')) return -factor();
    if (next('(')) {
      const int64_t value = sum();
      bad_ = bad_ || !next(')');
      return value;
    }
    if (next('x')) return x_;
    skip();
    const size_t from = at_;
    int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9')
      value = value * 10 + (text_[at_++] - '0');
    bad_ = bad_ || at_ == from;
    if (at_ < text_.size() && text_[at_] == 'x') {
      ++at_;
      value *= x_;
    }
    return value;
  }

  std::string_view text_;
  int64_t x_;
  size_t at_ = 0;
  bool bad_ = false;
};

std::optional<int64_t> calculate(std::string_view text, int64_t x = 0) {
  return Calculator(text, x).value();
}

std::vector<int64_t> numbers_in(std::string_view text) {
  std::vector<int64_t> numbers;
  bool inside = false;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (digit && !inside) numbers.push_back(0);
    if (digit) numbers.back() = numbers.back() * 10 + (c - '0');
    inside = digit;
  }
  return numbers;
}

// From the first to the last character of the question that can be part of a calculation.
std::string_view calculation_in(std::string_view question) {
  constexpr std::string_view parts = "0123456789+-*/()";
  question = question.substr(0, question.find('='));
  const size_t first = question.find_first_of(parts), last = question.find_last_of(parts);
  return question.substr(first, last + 1 - first);
}

using Numbers = std::vector<int64_t>;
struct StoryCheck {
  std::string_view english, chinese;
  int64_t (*answer)(const Numbers&);
};
// The expected answer of each story, transcribed from its text by hand.
const StoryCheck stories[] = {
    {"and gets", "又得到", [](const Numbers& n) { return n[0] + n[1]; }},
    {"of them to", "送给", [](const Numbers& n) { return n[0] - n[1]; }},
    {"There are", "个盒子，每个", [](const Numbers& n) { return n[0] * n[1]; }},
    {"shared equally", "平均分给", [](const Numbers& n) { return n[0] / n[1]; }},
    {"more and gives", "然后送给", [](const Numbers& n) { return n[0] + n[1] - n[2]; }},
    {"already has", "原来还有", [](const Numbers& n) { return n[0] * n[1] + n[2]; }},
    {"A shop", "商店", [](const Numbers& n) { return n[0] - n[1] - n[2]; }},
    {"get back", "应找回", [](const Numbers& n) { return n[2] - n[0] * n[1]; }},
    {"A train", "火车", [](const Numbers& n) { return n[0] * n[1] + n[2]; }},
    {"jars", "罐子", [](const Numbers& n) { return (n[0] * n[1] - n[2]) / n[3]; }},
    {"A school", "学校", [](const Numbers& n) { return n[0] * n[1] + n[2] * n[3]; }},
    {"A tank", "水箱", [](const Numbers& n) { return n[0] + n[1] * n[2] - n[3]; }},
    {"pages", "页", [](const Numbers& n) { return (n[0] - n[2]) * n[1]; }},
};

size_t story_of(const Problem& problem) {
  // Later rows contain phrases of earlier ones.
  for (size_t i = std::size(stories); i-- > 0;)
    if (problem.question.find(problem.language == "zh" ? stories[i].chinese : stories[i].english) !=
        std::string::npos)
      return i;
  ADD_FAILURE() << problem.question;
  return 0;
}

std::optional<int64_t> true_answer(const Problem& problem) {
  const std::string& question = problem.question;
  if (problem.family == "story") {
    const Numbers numbers = numbers_in(question);
    const StoryCheck& story = stories[story_of(problem)];
    return story.answer(numbers);
  }
  if (problem.family == "comparison") {
    const std::string_view both = calculation_in(question);
    const std::string_view middle = problem.language == "zh" ? "和" : " or ";
    const size_t at = both.find(middle);
    return std::max(calculate(both.substr(0, at)).value(),
                    calculate(both.substr(at + middle.size())).value());
  }
  if (problem.family == "equation") {
    std::string_view text = question;
    for (const std::string_view front : {"Solve for x: ", "解方程："})
      if (text.starts_with(front)) text.remove_prefix(front.size());
    text = text.substr(0, text.find_last_of("0123456789", text.find(",x=?")) + 1);
    const size_t equals = text.find('=');
    // The one whole number that makes both sides equal.
    for (int64_t x = -200; x <= 200; ++x)
      if (calculate(text.substr(0, equals), x) == calculate(text.substr(equals + 1), x)) return x;
    return std::nullopt;
  }
  return calculate(calculation_in(question));
}

std::vector<std::string> lines_of_solution(std::string text) {
  for (const std::string_view end : {".\n", "。\n", ". ", "。"})
    for (size_t at; (at = text.find(end)) != std::string::npos;) text.replace(at, end.size(), "\n");
  std::vector<std::string> lines(1);
  for (const char c : text)
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += c;
  return lines;
}

// Every "left = middle = right" and "left > right" of the solution holds.
void expect_steps_hold(const Problem& problem) {
  const int64_t answer = calculate(problem.answer).value();
  for (std::string line : lines_of_solution(problem.solution)) {
    for (const std::string_view colon : {": ", "："})
      if (const size_t at = line.find(colon); at != line.npos) line.erase(0, at + colon.size());
    if (line.empty() || line.starts_with("The answer") || line.starts_with("答案")) continue;
    if (const size_t larger = line.find('>'); larger != line.npos) {
      EXPECT_GT(calculate(line.substr(0, larger)).value(),
                calculate(line.substr(larger + 1)).value());
      continue;
    }
    std::set<std::optional<int64_t>> sides;
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find('=', at), line.size());
      sides.insert(calculate(line.substr(at, end - at), answer));
      at = end + 1;
    }
    EXPECT_TRUE(sides.size() == 1 && sides.begin()->has_value()) << line << "\n"
                                                                 << problem.question << "\n"
                                                                 << problem.solution;
  }
}

void expect_correct(const MathOptions& options, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    const Problem problem = math_problem(options, i);
    ASSERT_EQ(true_answer(problem), calculate(problem.answer)) << problem.question << "\n"
                                                               << problem.solution;
    expect_steps_hold(problem);
    EXPECT_EQ(problem.solution.find("\n\n"), std::string::npos) << problem.solution;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(MathChat, AnswersAndStepsAreCorrect) {
  for (const char* language : {"en", "zh"})
    for (const char* style : {"graded", "brief", "worked", "sentence"})
      for (const char* split : {"train", "held-out"})
        expect_correct(
            math_options(cat("seed=5,language=", language, ",style=", style, ",split=", split)),
            2000);
}

TEST(MathChat, TheCheckDetectsWrongAnswers) {
  EXPECT_EQ(calculate("(2 + 3) * 4 - 6 / 2"), 17);
  EXPECT_EQ(calculate("-(45 - 12)"), -33);
  EXPECT_EQ(calculate("3x + 1", 5), 16);
  EXPECT_EQ(calculate("7 / 2"), std::nullopt);
  EXPECT_EQ(calculate("7 +"), std::nullopt);
  Problem wrong{
      "What is 2 + 2?", "2 + 2 = 4.\nThe answer is \\boxed{4}.", "4", "addition", "en", 2};
  EXPECT_EQ(true_answer(wrong), 4);
  wrong.question = "What is 2 + 3?";
  EXPECT_NE(true_answer(wrong), 4);
}

// Family, form and numbers, found in the question's text.
std::string content_of(const Problem& problem) {
  Numbers numbers = numbers_in(problem.question);
  std::string form;
  if (problem.family == "story") {
    form = cat(story_of(problem));
  } else if (problem.family == "chain" || problem.family == "equation") {
    for (const char c : problem.question)
      if (std::string_view("+-*/()").find(c) != std::string_view::npos) form += c;
  } else if (problem.family == "addition" || problem.family == "multiplication" ||
             (problem.family == "comparison" && numbers.size() == 2)) {
    std::ranges::sort(numbers);
  } else if (problem.family == "comparison") {
    if (numbers[0] > numbers[1]) std::swap(numbers[0], numbers[1]);
    if (numbers[2] > numbers[3]) std::swap(numbers[2], numbers[3]);
    std::vector<Numbers> pairs{{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
    std::ranges::sort(pairs);
    numbers = {pairs[0][0], pairs[0][1], pairs[1][0], pairs[1][1]};
  }
  std::string content = cat(problem.family, " ", form);
  for (const int64_t number : numbers) content += cat(" ", number);
  return content;
}

TEST(MathChat, TrainingAndHeldOutProblemsNeverOverlap) {
  std::set<std::string> train, held_out, train_questions;
  size_t both = 0;
  for (const char* options :
       {"seed=1", "seed=2,language=both", "seed=3,language=zh,level=2-3", "seed=1,level=1",
        "seed=9,style=sentence,level=3", "seed=4,style=brief,language=both,level=1-2"}) {
    MathOptions wanted = math_options(options);
    for (uint64_t i = 0; i < 12000; ++i) {
      wanted.split = Split::train;
      const Problem one = math_problem(wanted, i);
      train.insert(content_of(one));
      train_questions.insert(one.question);
      wanted.split = Split::held_out;
      held_out.insert(content_of(math_problem(wanted, i)));
    }
  }
  for (const std::string& content : held_out) both += train.contains(content);
  EXPECT_EQ(both, 0u);
  EXPECT_GT(train.size(), 20000u);
  EXPECT_GT(held_out.size(), 10000u);
  for (const char* options : {"seed=1,split=held-out,language=both", "seed=7,split=held-out"})
    for (uint64_t i = 0; i < 12000; ++i)
      EXPECT_FALSE(train_questions.contains(math_problem(math_options(options), i).question));
}

TEST(MathChat, EveryFamilyHasBothSplitsAtEveryLevel) {
  for (const char* family : {"addition", "subtraction", "multiplication", "division", "comparison",
                             "chain", "equation", "story"})
    for (int level = 1; level <= 4; ++level)
      for (const char* split : {"train", "held-out"}) {
        MathOptions options;
        try {
          options = math_options(cat("family=", family, ",level=", level, ",split=", split));
        } catch (const Error&) {
          continue;
        }
        std::set<std::string> different;
        for (uint64_t i = 0; i < 300; ++i) {
          const Problem problem = math_problem(options, i);
          EXPECT_EQ(problem.level, level);
          EXPECT_EQ(problem.family, family);
          different.insert(content_of(problem));
        }
        EXPECT_GE(different.size(), 4u) << family << " " << level << " " << split;
      }
}

TEST(MathChat, IsDeterministic) {
  const MathOptions options = math_options("level=1,seed=1,family=addition");
  EXPECT_EQ(open_source("math-chat:level=1,seed=1,family=addition")->piece(0).text,
            cat("User: ", math_problem(options, 0).question,
                "\n\nAssistant: ", math_problem(options, 0).answer, "\n\n"));
  EXPECT_EQ(open_source("math-chat:seed=1")->description(),
            "math-chat:seed=1,split=train,level=1-4,language=en,style=graded,family=all");
  const std::string full = open_source("math-chat:family=story+chain,level=3")->description();
  EXPECT_EQ(open_source(full)->description(), full);
  EXPECT_EQ(open_source(full)->piece(7).text,
            open_source("math-chat:family=chain+story,level=3-3")->piece(7).text);
}

// One fixed wording, so that a small model can learn the task instead of the language.
TEST(MathChat, WritesTheSentenceRecipe) {
  const auto source = open_source("math-chat:level=3,style=sentence,family=addition");
  for (uint64_t i = 0; i < 50; ++i) {
    const std::string text = source->piece(i).text;
    const Numbers n = numbers_in(text);
    ASSERT_EQ(n.size(), 6u) << text;
    EXPECT_LE(n[0] + n[1], 1000);
    EXPECT_EQ(text, cat("User: What is ", n[0], " + ", n[1], "?\n\nAssistant: ", n[0], " + ", n[1],
                        " = ", n[0] + n[1], ". The answer is ", n[0] + n[1], ".\n\n"));
  }
}

TEST(MathChat, LearnsOnlyTheAssistantsTurn) {
  const auto source = open_source("math-chat:language=both");
  for (uint64_t i = 0; i < 200; ++i) {
    const Piece piece = source->piece(i);
    ASSERT_EQ(piece.learned.size(), 1u);
    const auto [begin, end] = piece.learned[0];
    EXPECT_TRUE(std::string_view(piece.text).substr(0, begin).ends_with("\n\nAssistant:"));
    EXPECT_EQ(end, piece.text.size());
    EXPECT_TRUE(piece.text.ends_with("\n\n"));
  }
}

TEST(MathChat, RejectsUnknownOptions) {
  const auto open = [](const char* text) { return open_source(text); };
  EXPECT_FAULT(open("math-chat:sede=1"), Fault::usage, "The closest is 'seed'");
  EXPECT_FAULT(open("math-chat:split=test"), Fault::usage, "expected one of train, held-out");
  EXPECT_FAULT(open("math-chat:level=0-4"), Fault::usage, "found '0-4'");
  EXPECT_FAULT(open("math-chat:level=3-2"), Fault::usage, "level");
  EXPECT_FAULT(open("math-chat:family=adition"), Fault::usage, "The closest is 'addition'");
  EXPECT_FAULT(open("math-chat:family=equation,level=1-4"), Fault::usage, "level 1");
  EXPECT_FAULT(open("math-chat:seed=-1"), Fault::usage, "whole number");
  EXPECT_FAULT(open("math-chat:seed=1,seed=1"), Fault::usage, "twice");
  EXPECT_FAULT(open("math-chat:seed"), Fault::usage, "name=value");
  EXPECT_FAULT(open("math-chat:seed=1,"), Fault::usage, "after the last comma");
}

}  // namespace
}  // namespace deltasane::corpus
