#include <gtest/gtest.h>

#include "answers/answers.h"
#include "answers/extract/boxed.h"
#include "answers/latex/normalize.h"

namespace deltasane::answers {
namespace {

std::string found(std::string_view text, const CheckOptions& options = {}) {
  return describe(extract(text, options));
}

TEST(Extract, PrefersAnnouncedAnswersToLaterOnes) {
  EXPECT_EQ(found("The final answer is $5$. I hope it is correct. Also \\boxed{7}."), "5 '5'");
  EXPECT_EQ(found("<think>\\boxed{1}</think> Answer: 18"), "1 '1'");
  EXPECT_EQ(found("Answer: 18, since 20 is too many"), "18 '18'");
  EXPECT_EQ(found("first 3, then 4"), "4 '4'");
}

TEST(Extract, FindsEveryKindOfSpan) {
  for (const char* text : {"$12$", "$$12$$", "\\(12\\)", "\\[ 12 \\]", "so [12] follows",
                           "\\boxed{12}", "\\fbox{3} $\\boxed{12}$", "is \\boxed 12"})
    EXPECT_TRUE(found(text).starts_with("12 ")) << text << ": " << found(text);
  EXPECT_EQ(found("we get \\frac{3}{4} of it"), "fraction{3, 4} '\\frac{3}{4}'");
  EXPECT_EQ(found("costs 5$ or 6$"), "6 '6'") << "no dollar after a digit opens a span";
}

TEST(Extract, JoinsEnumerations) {
  EXPECT_EQ(found("$1$, $2$ and $3$"), "set{1, 2, 3} '1 and 2 and 3'");
  EXPECT_EQ(found("\\boxed{99} no, \\boxed{18}"), "set{99, 18} '99,18'");
}

TEST(Extract, ReadsNumbersInProse) {
  EXPECT_EQ(found("It costs 1,234.50 in all"), "1234.50 '1234.50'");
  EXPECT_EQ(found("x is 12,5 here"), "12.5 '12.5'");
  EXPECT_EQ(found("abc12"), "");
  EXPECT_EQ(found("12abc"), "12 '12'");
  EXPECT_EQ(found("about 15 percent"), "multiply{15, fraction{1, 100}} '15'");
  EXPECT_EQ(found("答案是18。"), "");
  EXPECT_EQ(found("= 3/4"), "multiply{3, power{4, -1}} '3/4'");
}

TEST(Extract, KeepsTheTextOfWhatItCannotRead) {
  EXPECT_EQ(found("\\boxed{18页}"), "'18页'");
  EXPECT_EQ(found("\\boxed{D.}"), "'D.'");
  EXPECT_EQ(found("\\boxed{18"), "");
  CheckOptions options;
  options.fallback = Fallback::none;
  EXPECT_FALSE(extract("\\boxed{D.}", options).found());
}

TEST(Extract, FindsChoices) {
  CheckOptions options;
  options.latex = options.expressions = false;
  options.strings = true;
  EXPECT_EQ(found("The answer is B.", options), "b 'B'");
  EXPECT_EQ(found("**C** it is", options), "c 'C'");
  EXPECT_EQ(found("\\boxed{D}", options), "");
  EXPECT_EQ(found("Apples", options), "");
}

TEST(Boxed, TakesTheLastBoxAndItsNeighbours) {
  EXPECT_EQ(
      boxed_content("\\boxed{1} a long way of more than seventy characters, so that these two "
                    "are not taken together \\boxed{2}",
                    Boxes::last),
      "2");
  EXPECT_EQ(boxed_content("\\boxed{1}, \\boxed{2}", Boxes::last), "1,2");
  EXPECT_EQ(boxed_content("\\boxed{\\frac{1}{2}} and \\fbox{ 3 }", Boxes::all), "\\frac{1}{2},3");
  EXPECT_EQ(boxed_content("no box", Boxes::all), "no box");
}

TEST(Normalize, CleansLatex) {
  const auto clean = [](std::string_view text) {
    return normalize_latex(text, Boxes::all, Repair::operators);
  };
  EXPECT_EQ(clean("\\left(\\dfrac12\\right)"), "(\\frac{1}{2})");
  EXPECT_EQ(clean("12\\text{ cm}^2"), "12");
  EXPECT_EQ(clean("12 inches"), "12");
  EXPECT_EQ(clean("\\text{even}"), "\\text{even}");
  EXPECT_EQ(clean("3 \\text{ or } 5"), "3, 5");
  EXPECT_EQ(clean("25 percent"), "25\\%");
  EXPECT_EQ(clean("11,\\! 111"), "11,111");
  EXPECT_EQ(clean(".25"), "0.25");
  EXPECT_EQ(clean("0.5"), "\\frac{1}{2}");
  EXPECT_EQ(clean("-3/4"), "\\frac{-3}{4}");
  EXPECT_EQ(clean("x^(10)"), "x^{10}");
  EXPECT_EQ(clean("\\sqrt3 \\frac1{2}"), "\\sqrt{3} \\frac{1}{2}");
  EXPECT_EQ(clean("(x)_{2}"), "\\frac{(x)!}{((x)-(2))!}");
}

}  // namespace
}  // namespace deltasane::answers
