#include "corpus/math/answer.h"

#include <gtest/gtest.h>

#include "corpus/math/chat.h"

namespace deltasane::corpus {
namespace {

TEST(MathAnswer, IsFoundInWhatWasWritten) {
  EXPECT_EQ(stated_answer(" 12\n"), "12");
  EXPECT_EQ(stated_answer(" 7 + 5 = 12. The answer is 12."), "12");
  EXPECT_EQ(stated_answer(" 3 + 4 = 7, so \\boxed{7} no: \\boxed{ 12 }."), "12");
  EXPECT_EQ(stated_answer("The answer is -3. Surely 4."), "-3");
  EXPECT_EQ(stated_answer("the answer is 2.50."), "2.50");
  EXPECT_EQ(stated_answer(" no idea \n"), "no idea");
  EXPECT_EQ(stated_answer(""), "");
  EXPECT_EQ(stated_answer(" \n"), "");
}

TEST(MathAnswer, IsCorrectOrNot) {
  EXPECT_TRUE(answer_is_correct(" 37 + 85 = 122. The answer is 122.", "122"));
  EXPECT_TRUE(answer_is_correct(" first 3, then \\boxed{-4}. Not 5.", "-4"));
  EXPECT_TRUE(answer_is_correct("12", "12"));
  EXPECT_TRUE(answer_is_correct("about 1,234.", "1234"));
  EXPECT_TRUE(answer_is_correct("x = -7", "-7"));
  EXPECT_TRUE(answer_is_correct("10-7", "7"));
  EXPECT_TRUE(answer_is_correct("3/4", "3/4"));
  EXPECT_TRUE(answer_is_correct("2.50 and 2.5", "2.5"));
  EXPECT_FALSE(answer_is_correct("7", "-7"));
  EXPECT_FALSE(answer_is_correct("-7", "7"));
  EXPECT_FALSE(answer_is_correct("1122", "122"));
  EXPECT_FALSE(answer_is_correct("", "0"));
  EXPECT_FALSE(answer_is_correct("\\boxed{12", "2"));
}

TEST(MathAnswer, OfEverySolutionIsTheAnswer) {
  for (const char* style : {"brief", "worked", "sentence"})
    for (const char* language : {"en", "zh"}) {
      const MathOptions options =
          math_options(std::string("style=") + style + ",language=" + language);
      for (uint64_t i = 0; i < 200; ++i) {
        const Problem problem = math_problem(options, i);
        EXPECT_TRUE(answer_is_correct(" " + problem.solution, problem.answer)) << problem.solution;
      }
    }
}

}  // namespace
}  // namespace deltasane::corpus
