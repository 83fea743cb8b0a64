// Adversarial inputs, made to hang a checker or to exhaust its memory.
#include <gtest/gtest.h>

#include <ctime>
#include <iostream>

#include "answers/answers.h"

namespace deltasane::answers {
namespace {

std::string repeated(std::string_view text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

std::vector<std::pair<std::string, std::string>> adversarial_answers() {
  constexpr size_t megabyte = 1 << 20;
  const auto boxed = [](const std::string& text) { return "\\boxed{" + text + "}"; };
  std::string tower = "9";
  for (int i = 0; i < 12; ++i) tower = "9^{" + tower + "}";
  const std::string sum = repeated("x^2+", 140) + "1";
  return {
      {"tower of powers", boxed(tower)},
      {"tower of exponentials", boxed(repeated("e^{", 40) + "9" + repeated("}", 40))},
      {"factorials", boxed("9!!!!!!!!!!")},
      {"giant sine", boxed("\\sin(10^{10^{10}})")},
      {"giant logarithm", boxed("\\log(9^{9^{9^{9}}})")},
      {"nested braces", boxed(repeated("{", megabyte / 2) + repeated("}", megabyte / 2))},
      {"60 nested braces", boxed(repeated("{", 60) + "x" + repeated("}", 60))},
      {"nested parentheses", boxed(repeated("(", 250) + "x" + repeated(")", 250))},
      {"nested fractions", boxed(repeated("\\frac{1}{1+", 60) + "x" + repeated("}", 60))},
      {"nested roots", boxed(repeated("\\sqrt{2+", 70) + "x" + repeated("}", 70))},
      {"digits", std::string(megabyte, '7')},
      {"boxed digits", boxed(std::string(megabyte, '7'))},
      {"digits and spaces", repeated("1 ", megabyte / 2)},
      {"sum in prose", repeated("1+", megabyte / 2) + "x"},
      {"long sum", boxed(sum)},
      {"long product", boxed(repeated("abc", 190))},
      {"long list", boxed(repeated("x,", 290) + "x")},
      {"long power", boxed("x" + repeated("^y", 290))},
      {"bars", boxed(repeated("|", 500))},
      {"signs", boxed(repeated("-", 500) + "x")},
      {"dollars", std::string(megabyte, '$')},
      {"open spans", repeated("\\[", megabyte / 2)},
      {"boxes", repeated("\\boxed{", megabyte / 7)},
      {"closed boxes", repeated("\\boxed{1}", megabyte / 9)},
      {"anchors", repeated("answer: ", megabyte / 8)},
      {"final anchors", repeated("final answer is ", megabyte / 16)},
      {"spans", repeated("$x$ ", megabyte / 4)},
      {"bad spans", repeated("$\\bad$ ", megabyte / 7)},
      {"spaces", "The answer:" + std::string(megabyte, ' ')},
      {"huge matrix", boxed("\\begin{pmatrix}" + repeated("x&", 250) + "x\\end{pmatrix}")},
      {"huge series", boxed("\\sum_{n=1}^{99999999}n")},
      {"nested series", boxed("\\sum_{a=1}^{400}\\sum_{b=1}^{400}\\sum_{c=1}^{400}abc")},
      {"binomial", boxed("\\binom{999999999}{4000}")},
      {"equation of sines", boxed("y=" + repeated("\\sin(x)+", 60) + "\\cos(yx)")},
      {"set of sines", boxed(repeated("\\sin(x)\\cos(x),", 40) + "x")},
      {"chain of equations", boxed(repeated("x=", 290) + "x")},
      {"binomials", boxed(repeated("\\binom{x}{4000}+", 60) + "1")},
      {"factorials of thousands", boxed(repeated("9999!+", 90) + "1")},
      {"zero bytes", std::string(megabyte, '\0')},
      {"broken UTF-8", repeated("\xE3\x80", megabyte / 2)},
  };
}

// CPU time of this thread: the machine may be busy with other work.
double thread_milliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * double(now.tv_sec) + 1e-6 * double(now.tv_nsec);
}

constexpr double slowdown = DELTASANE_SLOWDOWN;  // of a build with sanitizers

TEST(Adversarial, EveryInputTakesLessThanFiftyMilliseconds) {
  verify("$1$", "$x+1$");  // builds the tables of first use
  double worst = 0;
  for (const auto& [name, text] : adversarial_answers()) {
    for (const auto& [gold, prediction] :
         {std::pair<std::string_view, std::string_view>("$x+\\sqrt{2}$", text),
          {text, "$7$"},
          {"$y=\\sin(xy)+x$", text},
          {"$\\sin(x),\\cos(x)$", text}}) {
      double best = 1e9;  // of a few
      for (int run = 0; run < 3; ++run) {
        const double start = thread_milliseconds();
        EXPECT_NE(verify(gold, prediction), Verdict::same) << name;
        best = std::min(best, thread_milliseconds() - start);
      }
      EXPECT_LT(best, 50 * slowdown) << name;
      if (best > 5) std::cout << name << ": " << best << " ms\n";
      worst = std::max(worst, best);
    }
    EXPECT_NO_THROW(verify(text, text)) << name;
  }
  std::cout << "worst: " << worst << " ms\n";
}

}  // namespace
}  // namespace deltasane::answers
