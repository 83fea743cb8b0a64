#include <gtest/gtest.h>

#include "answers/latex/latex.h"

namespace deltasane::answers {
namespace {

std::string read(std::string_view latex) {
  const Tree tree = parse_latex(latex);
  return tree ? describe(*tree) : "";
}

TEST(Latex, ReadsNumbers) {
  EXPECT_EQ(read("12"), "12");
  EXPECT_EQ(read("-0.50"), "-0.50");
  EXPECT_EQ(read("1,234,567"), "1234567");
  EXPECT_EQ(read("0,111"), "0.111");
  EXPECT_EQ(read("1, 234"), "set{1, 234}");
  EXPECT_EQ(read("2 \\frac{1}{2}"), "mixed{2, fraction{1, 2}}");
  EXPECT_EQ(read("50\\%"), "multiply{50, fraction{1, 100}}");
  EXPECT_EQ(read("204_5"), "204");
  EXPECT_EQ(read("1.5E3"), "1.5E3");
  EXPECT_EQ(read("4.5e33"), "multiply{4.5, euler, 33}");
  EXPECT_EQ(read("90^\\circ"), "90");
}

TEST(Latex, ReadsExpressions) {
  EXPECT_EQ(read("2x+1"), "add{multiply{2, x}, 1}");
  EXPECT_EQ(read("a-b-c"), "add{a, multiply{-1, b}, multiply{-1, c}}");
  EXPECT_EQ(read("x^2y"), "multiply{power{x, 2}, y}");
  EXPECT_EQ(read("\\frac{x}{2}"), "multiply{x, power{2, -1}}");
  EXPECT_EQ(read("\\sin 2x \\cos x"), "multiply{apply:sin{multiply{2, x}}, apply:cos{x}}");
  EXPECT_EQ(read("\\sin^{-1} x"), "apply:asin{x}");
  EXPECT_EQ(read("\\log_2 8"), "apply:log{8, 2}");
  EXPECT_EQ(read("\\sqrt[3]{x}"), "power{x, fraction{1, 3}}");
  EXPECT_EQ(read("e^{2x}"), "power{euler, multiply{2, x}}");
  EXPECT_EQ(read("f(x)"), "call:f{x}");
  EXPECT_EQ(read("x(x+1)"), "multiply{x, add{x, 1}}");
  EXPECT_EQ(read("5!"), "apply:factorial{5}");
  EXPECT_EQ(read("|x|"), "apply:abs{x}");
  EXPECT_EQ(read("A_{10}"), "a_{10}");
  EXPECT_EQ(read("\\text{Even}"), "even");
}

TEST(Latex, ReadsSetsTuplesAndRelations) {
  EXPECT_EQ(read("(1,2)"), "interval(){1, 2}");
  EXPECT_EQ(read("[1,2)"), "interval[){1, 2}");
  EXPECT_EQ(read("(1,2,3)"), "tuple{1, 2, 3}");
  EXPECT_EQ(read("\\{1,2\\}"), "set{1, 2}");
  EXPECT_EQ(read("(-\\infty,0)\\cup[2,\\infty)"),
            "unite{interval(){-infinity, 0}, interval[){2, infinity}}");
  EXPECT_EQ(read("x=1,2"), "relation:={x, set{1, 2}}");
  EXPECT_EQ(read("x=1,y=2"), "set{relation:={x, 1}, relation:={y, 2}}");
  EXPECT_EQ(read("1<x\\le 2"), "chain{relation:<{1, x}, relation:<={x, 2}}");
  EXPECT_EQ(read("x \\in \\mathbb{R}"), "relation:={x, named_set:R}");
  EXPECT_EQ(read("\\pm 2"), "set{-2, 2}");
  EXPECT_EQ(read("x \\approx 3.14"), "3.14");
  EXPECT_EQ(read("\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}"), "matrix{1, 2, 3, 4}");
}

TEST(Latex, RejectsWhatIsOutsideTheGrammar) {
  for (const char* text :
       {"5.", "\\unknown", "x^", "(1,2", "18页", "\\{x | x > 1\\}", "a \\to b", ""})
    EXPECT_EQ(read(text), "") << text;
}

TEST(Latex, ReadsTheLastSideOfAChainItCannotReadWhole) {
  EXPECT_EQ(read("x? = 3 = 4"), "4");
  EXPECT_EQ(read("x? = 4"), "");
}

TEST(Plain, ReadsPlainTextExpressions) {
  EXPECT_EQ(describe(*parse_plain("2*(3 - 1)^2")), "multiply{2, power{add{3, -1}, 2}}");
  EXPECT_EQ(describe(*parse_plain("3/4.")), "multiply{3, power{4., -1}}");
  for (const char* text : {"2 3", "2(3)", "3 ÷ 4", "2*", "007"}) EXPECT_FALSE(parse_plain(text));
}

}  // namespace
}  // namespace deltasane::answers
