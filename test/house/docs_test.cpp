#include "house/docs.h"

#include <gtest/gtest.h>

#include "base/io/file.h"
#include "support/scratch.h"

namespace deltasane::house {
namespace {

using Commands = std::set<std::string>;
const fs::path root = DELTASANE_SOURCE;

TEST(Docs, NameOnlyPathsThatExist) {
  ASSERT_FALSE(documents(root).empty());
  for (const std::string& document : documents(root)) {
    const Findings findings = check_paths(root, document, read_file(root / document));
    EXPECT_TRUE(findings.empty()) << to_string(findings);
  }
}

TEST(Docs, ShowOnlyCommandsThatAnswerHelp) {
  const std::string program = DELTASANE_PROGRAM;
  if (program.empty()) {
    ASSERT_FALSE(fs::exists(root / "src/cli")) << "src/cli makes no target named deltasane";
    GTEST_SKIP() << "there is no program yet";
  }
  for (const std::string& document : documents(root))
    for (const std::string& command : shown_commands(read_file(root / document)))
      EXPECT_EQ(fault_of_command(program, command), "") << document;
}

// A tree of one source, one document and one folder.
class Tree : public testing::Test {
 protected:
  Tree() {
    fs::create_directories(scratch_.path() / "src/base");
    fs::create_directories(scratch_.path() / "docs");
    replace_file(scratch_.path() / "src/base/cat.h", "");
    replace_file(scratch_.path() / "docs/here.md", "");
  }
  size_t faults(const std::string& document, const std::string& text) {
    return check_paths(scratch_.path(), document, text).size();
  }
  test::Scratch scratch_;
};

TEST_F(Tree, HasThePathsThatDocumentsName) {
  EXPECT_EQ(faults("README.md", "`src/base/cat.h` `base/cat.h` `cat.h` `src/base/` `cat.h:12`"),
            0u);
  EXPECT_EQ(faults("README.md", "[a](docs/here.md) [b](docs/here.md#part) [c](https://a.b/c.md)"),
            0u);
  EXPECT_EQ(faults("docs/there.md", "[a](here.md) [b](../src/base/cat.h) `here.md` [c](#part)"),
            0u);
}

TEST_F(Tree, LacksThePathsThatDoNotExist) {
  for (const char* text :
       {"`src/base/dog.h`", "`base/dog.h`", "`dog.h`", "`src/gone`", "`gone/`", "`gone/dog.cpp`",
        "run `src/gone DIR`", "`docs/gone.md:12`", "[a](gone.md)", "[a](gone)", "![a](docs/a.png)"})
    EXPECT_EQ(faults("README.md", text), 1u) << text;
  EXPECT_EQ(faults("docs/there.md", "[a](docs/here.md)"), 1u) << "a link starts at its document";
  EXPECT_EQ(check_paths(scratch_.path(), "README.md", "a\n\n`src/gone`")[0].where, "README.md:3");
}

TEST_F(Tree, IgnoresPlaceholdersUnitsAndOutputs) {
  EXPECT_EQ(
      faults(
          "README.md",
          "`src/<op>/cpu.cpp` `src/kernel/NAME/x.h` `DIR/fmt` `NAME_test.cpp` `*.cpp` `src/{a,b}` "
          "`tokens/s` `application/json` `/v1/chat` `build/release/x` `model.pth` "
          "`--out=src/x` `http://src/x.md` src/gone"),
      0u);
  EXPECT_EQ(faults("README.md", "```\n`src/gone`\n```\n"), 0u);
}

TEST(ShownCommands, AreTheFirstWordAfterTheProgram) {
  EXPECT_EQ(shown_commands("```sh\n$ deltasane eval --model x\nA=1 build/x/deltasane demo\n"
                           "cat a | deltasane text_stats -  # deltasane gone\n```\n"),
            (Commands{"eval", "demo", "text_stats"}));
}

TEST(ShownCommands, MustAnswerHelpWithTextOfTheirOwn) {
  const test::Scratch scratch;
  const fs::path program = scratch.path() / "deltasane";
  replace_file(program,
               "#!/bin/sh\ncase $1 in eval) echo eval --model M;; broken) exit 2;;\n"
               "*) echo commands: eval;; esac\n");
  fs::permissions(program, fs::perms::owner_all);
  EXPECT_EQ(fault_of_command(program, "eval"), "");
  EXPECT_NE(fault_of_command(program, "broken"), "");
  EXPECT_NE(fault_of_command(program, "gone"), "") << "only the help of the program itself";
  EXPECT_NE(fault_of_command(scratch.path() / "gone", "eval"), "");
}

TEST(ShownCommands, AreNotOutputOrProse) {
  EXPECT_EQ(shown_commands("deltasane gone\n```\ndeltasane --version\ndeltasane 0.1.0\n"
                           "deltasane: error\nthe deltasane way\n# deltasane x\n```\n"),
            Commands{});
}

}  // namespace
}  // namespace deltasane::house
