#include <gtest/gtest.h>

#include "answers/answers.h"

namespace deltasane::answers {
namespace {

struct Case {
  const char *gold, *prediction;
};

void expect(Verdict verdict, std::initializer_list<Case> cases, const CheckOptions& options = {}) {
  for (const Case& c : cases)
    EXPECT_EQ(verify(c.gold, c.prediction, options), verdict) << c.gold << " and " << c.prediction;
}

TEST(Compare, JudgesPlainNumbersInEveryBuild) {
  expect(Verdict::same, {{"$12$", "12.0"},
                         {"$1,234$", "\\boxed{1234}"},
                         {"$0.75$", "\\boxed{0.7500001}"},
                         {"$0.0000001$", "$0.0000002$"},
                         {"$12.0$", "$12.0000001$"},
                         {"$50\\%$", "0.5"},
                         {"$D$", "\\boxed{D}"}});
  expect(Verdict::different, {{"$12$", "12.0000001"},
                              {"$12$", "-12"},
                              {"$0.75$", "\\boxed{0.750001}"},
                              {"$50\\%$", "$50$"},
                              {"$0.0999999999$", "$0.1$"},
                              {"$1000000000.5$", "$1000000000.5000001$"},
                              {"$123456789012345678$", "$123456789012345679$"},
                              {"$5$", "no answer"}});
}

TEST(Compare, JudgesChoicesAndWordsInEveryBuild) {
  expect(Verdict::same, {{"$D$", "\\boxed{(D)}"},
                         {"$AC$", "\\boxed{CA}"},
                         {"$\\text{Even}$", "$even$"},
                         {"$E$", "$e$"},
                         {"$\\text{18}$", "$18$"},
                         {"$\\text{1/8}$", "$\\frac{2}{16}$"}});
  expect(Verdict::different,
         {{"$D$", "\\boxed{A}"}, {"$AC$", "$ACD$"}, {"$D$", "$5$"}, {"$AC$", "$12$"}});
}

TEST(Compare, IsUnsupportedWithoutAlgebra) {
  if (has_algebra()) GTEST_SKIP() << "this build has algebra";
  EXPECT_EQ(verify("$x+1$", "$1+x$"), Verdict::unsupported);
  EXPECT_EQ(verify("$\\frac{1}{2}$", "$0.50$"), Verdict::unsupported);
  EXPECT_EQ(verify("$x+1$", "$x+1$"), Verdict::same);
}

class Algebra : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_algebra()) GTEST_SKIP() << "this build compares plain numbers only";
  }
};

TEST_F(Algebra, ComparesConstants) {
  expect(Verdict::same, {{"$\\frac{1}{3}$", "$0.333333$"},
                         {"$\\sqrt{2}$", "$1.414214$"},
                         {"$2.0$", "$\\sqrt{4}$"},
                         {"$\\sqrt{8}$", "$2\\sqrt{2}$"},
                         {"$\\frac{1}{\\sqrt{2}}$", "$\\frac{\\sqrt{2}}{2}$"},
                         {"$\\log_2 8$", "$3$"},
                         {"$\\frac{1}{2^{99}}$", "$\\frac{1}{2^{98}}$"},
                         {"$5!$", "$120$"},
                         {"$\\binom{5}{2}$", "$10$"},
                         {"$2\\frac{1}{2}$", "$2.5$"}});
  expect(Verdict::different, {{"$\\frac{1}{3}$", "$0.33333$"},
                              {"$\\pi$", "$3.14$"},
                              {"$\\infty$", "$-\\infty$"},
                              {"$1/0$", "$2/0$"},
                              {"$2^{10}$", "$2^{11}$"}});
}

TEST_F(Algebra, ComparesExpressions) {
  expect(Verdict::same, {{"$(x+1)^2$", "$x^2+2x+1$"},
                         {"$\\sin^2 x+\\cos^2 x$", "$1$"},
                         {"$\\sqrt{x^2}$", "$|x|$"},
                         {"$\\frac{x^2-1}{x-1}$", "$x+1$"},
                         {"$f(x)+1$", "$1+f(x)$"},
                         {"$\\text{odd}$", "$odd$"},
                         {"$18$", "$\\text{18}$"}});
  expect(Verdict::different, {{"$\\ln(x^2)$", "$2\\ln(x)$"},
                              {"$\\sqrt{1/n}$", "$1/\\sqrt{n}$"},
                              {"$x+1$", "$y+1$"},
                              {"$f(x)$", "$g(x)$"},
                              {"$x$", "$2x-x$"}});
}

TEST_F(Algebra, ComparesEquationsAndInequalities) {
  expect(Verdict::same, {{"$x=3$", "$3$"},
                         {"$3$", "$x=3$"},
                         {"$x=1+2=3$", "$3$"},
                         {"$2x+4y=6$", "$x+2y=3$"},
                         {"$y=1/x$", "$xy=1$"},
                         {"$x^2+y^2=4$", "$2x^2+2y^2=8$"},
                         {"$x<3$", "$3>x$"},
                         {"$x<3$", "$(-\\infty,3)$"},
                         {"$x^2<4$", "$(-2,2)$"},
                         {"$x\\neq 3$", "$(-\\infty,3)\\cup(3,\\infty)$"},
                         {"$0<f(x)<1$", "$(0,1)$"}});
  expect(Verdict::different, {{"$x=3$", "$y=3$"},
                              {"$2x<6$", "$x<3$"},
                              {"$x=3$", "$2x=6$"},
                              {"$y=2x+1$", "$2x-y=1$"},
                              {"$(-\\infty,3)$", "$x<3$"},
                              {"$x<3$", "$x\\le 3$"}});
  CheckOptions both_ways;
  both_ways.relation_for_set = true;
  expect(Verdict::same, {{"$(-\\infty,3)$", "$x<3$"}}, both_ways);
}

TEST_F(Algebra, ComparesSetsTuplesIntervalsAndMatrices) {
  expect(Verdict::same,
         {{"$1,2$", "$2,1$"},
          {"$\\{1,2\\}$", "$(1,2)$"},
          {"$(3,\\frac{\\pi}{2})$", "$(3,0.5\\pi)$"},
          {"$[0,1)$", "$[0,1)$"},
          {"$(-\\infty,\\infty)$", "$\\mathbb{R}$"},
          {"$[1,2]\\cup[2,3]$", "$[1,3]$"},
          {"$\\{\\frac{1}{3}\\}$", "$\\{0.333333\\}$"},
          {"$\\begin{pmatrix}1\\\\2\\end{pmatrix}$", "$\\begin{bmatrix}1.0\\\\2\\end{bmatrix}$"},
          {"$2\\begin{pmatrix}1\\\\2\\end{pmatrix}$", "$\\begin{pmatrix}2\\\\4\\end{pmatrix}$"}});
  expect(Verdict::different,
         {{"$(1,2)$", "$2,1$"},
          {"$[1,2]$", "$1,2$"},
          {"$(1,2)$", "$[1,2]$"},
          {"$1,2$", "$1,2,3$"},
          {"$\\begin{pmatrix}1&2\\end{pmatrix}$", "$\\begin{pmatrix}1\\\\2\\end{pmatrix}$"}});
}

TEST_F(Algebra, MatchesVariablesByPositionWhenNotStrict) {
  CheckOptions options;
  options.strict = false;
  expect(Verdict::same, {{"$x+1$", "$y+1$"}}, options);
  expect(Verdict::different, {{"$x+1$", "$y+2$"}}, options);
}

TEST_F(Algebra, GroupsAnswersForVoting) {
  std::vector<Answer> answers;
  for (const char* text : {"$\\frac{1}{2}$", "none", "$0.5$", "$2$", "\\boxed{2.0}"})
    answers.push_back(extract(text));
  EXPECT_EQ(group(answers), (std::vector<int>{0, -1, 0, 3, 3}));
}

TEST_F(Algebra, GivesTheSameVerdictsOnEveryNumberOfThreads) {
  std::vector<Pair> pairs;
  for (int i = 0; i < 200; ++i)
    pairs.push_back({"$x^" + std::to_string(i % 7) + "$", "$x^" + std::to_string(i % 5) + "$", {}});
  ThreadPool one(1), three(3);
  EXPECT_EQ(verify_all(one, pairs), verify_all(three, pairs));
}

}  // namespace
}  // namespace deltasane::answers
