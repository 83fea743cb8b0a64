#include "corpus/math/write.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "corpus/math/patterns.h"

namespace deltasane::corpus {
namespace {

// Each wording has one placeholder for the expression.
constexpr std::string_view english_wordings[] = {"What is {e}?", "Calculate {e}.", "Compute {e}.",
                                                 "{e} = ?"};
constexpr std::string_view chinese_wordings[] = {"{e}等于多少？", "计算：{e}。", "求{e}的值。",
                                                 "{e} = ?"};

struct Thing {
  std::string_view english, measure, chinese;
};
constexpr Thing things[] = {{"apples", "个", "苹果"}, {"pencils", "支", "铅笔"},
                            {"books", "本", "书"},    {"eggs", "个", "鸡蛋"},
                            {"cards", "张", "卡片"},  {"flowers", "朵", "花"},
                            {"stamps", "枚", "邮票"}, {"oranges", "个", "橙子"}};
constexpr std::string_view english_names[] = {"Anna", "Ben",  "Carla", "David",
                                              "Emma", "Feng", "Grace", "Hugo"};
constexpr std::string_view chinese_names[] = {"小明", "小红", "小华", "小李",
                                              "小芳", "小刚", "小丽", "小军"};

// Replaces each {letter} by what fill(letter, text) appends.
template <class Fill>
std::string filled(std::string_view pattern, Fill&& fill) {
  std::string text;
  text.reserve(pattern.size() + 16);
  for (size_t at = 0; at < pattern.size();) {
    const size_t open = std::min(pattern.find('{', at), pattern.size());
    text += pattern.substr(at, open - at);
    if (open == pattern.size()) break;
    fill(pattern[open + 1], text);
    at = open + 3;
  }
  return text;
}

std::string with_numbers(std::string_view pattern, const Operands& values) {
  return filled(pattern, [&](char letter, std::string& text) {
    append_part(text, values[size_t(letter - 'a')]);
  });
}

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

std::string ask(std::string expression, const Working& working, Random& random) {
  if (working.brief()) return cat(without_spaces(std::move(expression)), "=?");
  const uint64_t wording =
      working.detailed() ? random.below(std::size(english_wordings)) : uint64_t{0};
  return filled(working.chinese() ? chinese_wordings[wording] : english_wordings[wording],
                [&](char, std::string& text) { text += expression; });
}

void write_steps(Working& working, const Steps& steps, const Pattern& pattern) {
  const auto& labels = working.chinese() ? pattern.chinese_labels : pattern.english_labels;
  for (int i = 0; i < steps.count; ++i) {
    const Step& step = steps.step[size_t(i)];
    working.step_for(labels[size_t(i)], step.left, ' ', step.sign, ' ', step.right, " = ",
                     step.result);
  }
}

std::string story_question(const Pattern& pattern, const Operands& values, bool chinese,
                           Random& random) {
  const Thing& thing = things[random.below(std::size(things))];
  const uint64_t one = random.below(std::size(english_names));
  const uint64_t step = 1 + random.below(std::size(english_names) - 1);  // a different name
  const uint64_t other = (one + step) % std::size(english_names);
  const auto& names = chinese ? chinese_names : english_names;
  return filled(chinese ? pattern.chinese : pattern.english, [&](char letter, std::string& text) {
    switch (letter) {
      case 'n':
        text += names[one];
        break;
      case 'm':
        text += names[other];
        break;
      case 'o':
        text += chinese ? thing.chinese : thing.english;
        break;
      case 'u':
        text += thing.measure;
        break;
      default:
        append_part(text, values[size_t(letter - 'a')]);
    }
  });
}

int64_t write_comparison(Problem& problem, Working& working, const Drawn& drawn) {
  const auto& [a, b, c, d] = drawn.values;
  const bool products = drawn.shape == 1;
  const std::string left = products ? cat(a, " * ", b) : cat(a);
  const std::string right = products ? cat(c, " * ", d) : cat(b);
  if (working.chinese())
    problem.question = cat(left, "和", right, products ? "哪个大？写出它的值。" : "哪个大？");
  else if (working.brief() && !products)
    problem.question = cat(left, " or ", right, ", larger?");
  else
    problem.question =
        cat("Which is larger, ", left, " or ", right, products ? "? Give its value." : "?");
  const int64_t one = products ? a * b : a, other = products ? c * d : b;
  if (products) {
    working.step(left, " = ", one);
    working.step(right, " = ", other);
  }
  working.step(std::max(one, other), " > ", std::min(one, other));
  return std::max(one, other);
}

constexpr std::string_view equations[] = {"x + {a} = {b}",    "x - {a} = {b}",
                                          "{a}x = {b}",       "{a}x + {b} = {c}",
                                          "{a}x - {b} = {c}", "{a}x + {b} = {c}x + {d}"};

std::string coefficient(int64_t number) { return number == 1 ? "x" : cat(number, "x"); }

int64_t write_equation(Problem& problem, Working& working, const Drawn& drawn) {
  const auto& [a, b, c, d] = drawn.values;
  // "+ -3" becomes "- 3".
  std::string text = with_numbers(equations[drawn.shape], drawn.values);
  if (const size_t at = text.find("+ -"); at != text.npos) text.replace(at, 3, "- ");
  if (working.brief())
    problem.question = cat(without_spaces(text), ",x=?");
  else if (working.chinese())
    problem.question = cat("解方程：", text, "。");
  else
    problem.question = cat("Solve for x: ", text, ".");
  int64_t factor = a, right = b;
  switch (drawn.shape) {
    case 0:
      working.step("x = ", b, " - ", a, " = ", b - a);
      return b - a;
    case 1:
      working.step("x = ", b, " + ", a, " = ", b + a);
      return b + a;
    case 2:
      break;
    case 3:
      right = c - b;
      working.step(a, "x = ", c, " - ", b, " = ", right);
      break;
    case 4:
      right = c + b;
      working.step(a, "x = ", c, " + ", b, " = ", right);
      break;
    default:
      factor = a - c;
      right = d - b;
      working.step(a, "x - ", c, "x = ", d, " - ", b);
      working.step(coefficient(factor), " = ", right);
  }
  if (factor != 1) working.step("x = ", right, " / ", factor, " = ", right / factor);
  return right / factor;
}

using WorkTwo = void (*)(Working&, int64_t, int64_t);

int64_t write_two(Problem& problem, Working& working, const Drawn& drawn, char sign, int64_t result,
                  WorkTwo work, Random& random) {
  const auto& [a, b, c, d] = drawn.values;
  problem.question = ask(cat(a, ' ', sign, ' ', b), working, random);
  work(working, a, b);
  return result;
}

int64_t write_family(Problem& problem, Working& working, const Drawn& drawn, Random& random) {
  const auto& [a, b, c, d] = drawn.values;
  switch (drawn.family) {
    case Family::addition:
      return write_two(problem, working, drawn, '+', a + b, work_addition, random);
    case Family::subtraction:
      return write_two(problem, working, drawn, '-', a - b, work_subtraction, random);
    case Family::multiplication:
      return write_two(problem, working, drawn, '*', a * b, work_multiplication, random);
    case Family::division:
      return write_two(problem, working, drawn, '/', a / b, work_division, random);
    case Family::comparison:
      return write_comparison(problem, working, drawn);
    case Family::equation:
      return write_equation(problem, working, drawn);
    default:
      break;
  }
  const bool story = drawn.family == Family::story;
  const Pattern& pattern = (story ? story_patterns() : chain_patterns())[size_t(drawn.shape)];
  problem.question = story ? story_question(pattern, drawn.values, working.chinese(), random)
                           : ask(with_numbers(pattern.english, drawn.values), working, random);
  const Steps steps = run_program(pattern.program, drawn.values);
  write_steps(working, steps, pattern);
  return steps.answer();
}

}  // namespace

Problem write_problem(const Drawn& drawn, Language language, MathStyle style, Random& random) {
  require(language != Language::both && style != MathStyle::graded,
          "a problem is written in one language and one style");
  Problem problem;
  problem.level = drawn.level;
  Working working(language, style);
  const int64_t answer = write_family(problem, working, drawn, random);
  problem.solution = working.finish(answer);
  problem.answer = cat(answer);
  return problem;
}

}  // namespace deltasane::corpus
