#include "eval/suite/suite.h"

#include <gtest/gtest.h>

#include <iostream>

#include "corpus/math/chat.h"
#include "eval/suite/published.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane::eval {
namespace {

struct SuiteTest : testing::Test {
  test::Scratch scratch;

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((scratch.path() / name).parent_path());
    replace_file(scratch.path() / name, text);
  }
  Benchmark open(std::string_view suite) {
    return open_suite(suite, {.folder = scratch.path()}).at(0);
  }
};

fs::path shared_problems() { return fs::path(DELTASANE_SHARED) / "data/math"; }

TEST(PublishedSuite, HasTheRowsOfThePaper) {
  if (!fs::exists(shared_problems())) GTEST_SKIP() << shared_problems() << ": no benchmarks here";
  const auto all = open_suite("all", {.folder = shared_problems()});
  ASSERT_EQ(all.size(), 11u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(int64_t(all[i].problems.size()), published_benchmarks()[i].rows) << all[i].name;
    EXPECT_TRUE(all[i].notes.empty()) << all[i].notes[0];
  }
}

TEST(PublishedSuite, GoldsVerifyAgainstThemselves) {
  if (!fs::exists(shared_problems())) GTEST_SKIP() << shared_problems() << ": no benchmarks here";
  if (!answers::has_algebra()) GTEST_SKIP() << "this build compares plain numbers only";
  for (const Benchmark& benchmark : open_suite("all", {.folder = shared_problems()})) {
    size_t same = 0;
    for (const Problem& problem : benchmark.problems)
      same += answers::verify(answers::wrapped(problem.gold),
                              "The final answer is \\boxed{" + problem.gold + "}.",
                              benchmark.check) == answers::Verdict::same;
    const size_t rows = benchmark.problems.size();
    EXPECT_GE(double(same), 0.99 * double(rows)) << benchmark.name;
    std::cout << benchmark.name << ": " << same << " of " << rows << "\n";
  }
}

TEST(PublishedSuite, AsksAsItsAuthorsDo) {
  if (!fs::exists(shared_problems())) GTEST_SKIP() << shared_problems() << ": no benchmarks here";
  const auto first = [](std::string_view name) {
    return open_suite(name, {.folder = shared_problems(), .limit = 1}).at(0).problems.at(0);
  };
  EXPECT_EQ(first("gsm8k").gold, "18");
  EXPECT_EQ(first("weak12k").gold, "2");
  EXPECT_EQ(first("weak12k").question,
            "小猴要爬上6米高的大树,可是每次他爬上4米后,他又掉下2米,小猴第几次才能爬上树顶?");
  EXPECT_EQ(first("asdiv").gold, "9");
  EXPECT_EQ(first("asdiv").question,
            "Seven red apples and two green apples are in the basket. How many apples are in the "
            "basket?");
  EXPECT_EQ(first("minerva_math").gold, "1.6");
  EXPECT_EQ(first("svamp").gold, "145");
  EXPECT_NE(first("svamp").question.find("93 groups. How big"), std::string::npos);
  EXPECT_EQ(first("gaokao_math_qa").gold, "D");
  EXPECT_NE(first("gaokao_math_qa").question.find("( )\n选项: (A) $\\{x \\mid x>-1\\}$ (B)"),
            std::string::npos);
}

// What a model says in Chinese or English about a choice.
TEST(PublishedSuite, ReadsChoiceLetters) {
  answers::CheckOptions check;
  check.strings = true;
  for (const char* said : {"所以答案是 \\boxed{D}。", "The answer is D."})
    EXPECT_EQ(answers::verify(answers::wrapped("D"), said, check), answers::Verdict::same) << said;
  EXPECT_NE(answers::verify(answers::wrapped("D"), "\\boxed{A}", check), answers::Verdict::same);
}

TEST_F(SuiteTest, NamesBadRowsAndGoesOn) {
  write("gsm8k/test.jsonl",
        "{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n"
        "not json\n\n"
        "{\"question\": \"1+2?\"}\n"
        "{\"question\": \"1+2?\", \"answer\": \"three\"}\n"
        "{\"question\": \"1+2?\", \"answer\": [3]}\n"
        "[1]\n"
        "{\"question\": \"\xff\", \"answer\": \"#### 2\"}\n"
        "{\"question\": \"\", \"answer\": \"#### 2\"}\n"
        "{\"question\": \"1+4?\", \"answer\": \"#### 5\"}\n");
  const Benchmark benchmark = open("gsm8k");
  ASSERT_EQ(benchmark.problems.size(), 2u);
  EXPECT_EQ(benchmark.problems[0].row, 1);
  EXPECT_EQ(benchmark.problems[1].row, 10);
  EXPECT_EQ(benchmark.problems[1].gold, "5");
  ASSERT_EQ(benchmark.notes.size(), 8u);  // seven rows, and their number
  const char* const expected[]{":2: expected a JSON object", ":4: expected a field 'answer'",
                               ":5: expected '####'",        ":6: answer: expected text",
                               ":7: expected a JSON object", ":8: expected UTF-8",
                               ":9: expected a question",    "expected 1319 problems, found 2"};
  for (size_t i = 0; i < 8; ++i)
    EXPECT_NE(benchmark.notes[i].find(expected[i]), std::string::npos) << benchmark.notes[i];
}

TEST_F(SuiteTest, SaysWhatIsMissing) {
  EXPECT_FAULT(open("gsm9k"), Fault::usage, "did you mean gsm8k?");
  EXPECT_FAULT(open(""), Fault::usage, "expected one of gsm8k");
  EXPECT_FAULT(open("svamp"), Fault::file, "svamp/test.jsonl: expected the problems");
  EXPECT_FAULT(open_suite("svamp", {.folder = scratch.path() / "none"}), Fault::file,
               "expected a folder");
  EXPECT_FAULT(open_suite("svamp", {}), Fault::usage,
               "expected a data folder with svamp/test.jsonl in it, found none");
  write("svamp/test.jsonl", "");
  EXPECT_FAULT(open("svamp"), Fault::file, "an empty file");
  write("svamp/test.jsonl", "{}\n");
  EXPECT_FAULT(open("svamp"), Fault::file, "test.jsonl:1: expected a field 'Body'");
  write("svamp/test.jsonl", "{\"Body\": \"b\", \"Question\": \"q\", \"Answer\": 1}\n");
  EXPECT_FAULT(open("svamp,svamp"), Fault::usage, "found svamp again");
}

// A device that never ends was read into one line.
TEST_F(SuiteTest, ProblemsAreInFiles) {
  write("own.toml", "[[benchmark]]\nname = 'a'\nfile = '/dev/zero'\n");
  EXPECT_FAULT(open((scratch.path() / "own.toml").string()), Fault::file,
               "/dev/zero: expected the problems of a");
}

TEST(MadeProblems, AreHeldOutAndTheirSolutionsAreRight) {
  for (const char* suite : {"math-chat", "math-chat:level=2-3,language=zh,style=worked"}) {
    const auto all = open_suite(suite, {.limit = 40});
    EXPECT_EQ(all.size(), suite == std::string_view("math-chat") ? 4u : 2u);
    for (const Benchmark& benchmark : all) {
      corpus::MathOptions options = corpus::math_options(
          suite == std::string_view("math-chat") ? "" : "language=zh,style=worked");
      options.split = corpus::Split::held_out;
      options.lowest_level = options.highest_level = benchmark.name.back() - '0';
      EXPECT_EQ(benchmark.problems.size() == 40, benchmark.notes.empty());
      EXPECT_GT(benchmark.problems.size(), 20u);
      for (const Problem& problem : benchmark.problems) {
        const auto made = corpus::math_problem(options, uint64_t(problem.row - 1));
        EXPECT_EQ(made.question, asked(benchmark, problem));
        EXPECT_EQ(answers::verify(answers::wrapped(problem.gold), made.solution, benchmark.check),
                  answers::Verdict::same)
            << made.question << "\n"
            << made.solution << "\n"
            << problem.gold;
      }
    }
  }
  EXPECT_FAULT(open_suite("math-chat:levle=1", {}), Fault::usage, "levle");
}

TEST_F(SuiteTest, OwnSuitesComeFromToml) {
  write("mine.jsonl",
        "{\"q\": \"Half of 6?\", \"more\": \"A number.\", \"a\": \"It is \\\\boxed{3}.\"}\n");
  write("mine.toml", R"(
[[benchmark]]
name = "from-file"
file = "mine.jsonl"
question = ["q", "more"]
gold = "a"
gold-rule = "last-box"
language = "zh"

[[benchmark]]
name = "inside"
title = "Inside"
instruction = "Q: {question} Answer with a letter."
choices = ["A", "B"]
[[benchmark.problem]]
question = "Which letter comes first, A or B?"
gold = "A"
)");
  const std::string file = (scratch.path() / "mine.toml").string();
  const auto all = open_suite(file, {});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].problems.at(0).question, "Half of 6? A number.");
  EXPECT_EQ(all[0].problems[0].gold, "3");
  EXPECT_NE(asked(all[0], all[0].problems[0]).find("请逐步推理"), std::string::npos);
  EXPECT_EQ(asked(all[1], all[1].problems.at(0)),
            "Q: Which letter comes first, A or B? Answer with a letter.");
  EXPECT_TRUE(all[1].check.strings);
}

TEST_F(SuiteTest, BadTomlIsNamed) {
  const auto refuses = [&](const std::string& text, const char* part) {
    write("bad.toml", text);
    EXPECT_FAULT(open((scratch.path() / "bad.toml").string()), Fault::file, part);
  };
  refuses("[[benchmark]\n", "bad.toml:1: expected TOML");
  refuses("", "expected [[benchmark]] tables");
  refuses("[[benchmark]]\nname = \"x\"\n", "expected a file or [[benchmark.problem]]");
  refuses("[[benchmark]]\nname = 3\n", "name: expected a text");
  refuses("[[benchmark]]\nnmae = \"x\"\n", "found 'nmae'");
  refuses("[[benchmark]]\nname = \"x\"\nfile = \"f\"\ngold-rule = \"magic\"\n",
          "gold-rule: expect");
  refuses("[[benchmark]]\nname = \"x\"\nfile = \"f\"\ninstruction = \"go\"\n", "{question}");
  refuses("[[benchmark]]\nname = \"x\"\nlanguage = \"fr\"\n", "expected en or zh");
}

}  // namespace
}  // namespace deltasane::eval
