#include "house/test_names.h"

#include <gtest/gtest.h>

#include "base/io/file.h"
#include "house/tree.h"

namespace deltasane::house {
namespace {

TEST(TestNames, InTheDocumentAreThoseOfTests) {
  const fs::path tree = DELTASANE_SOURCE;
  std::set<std::string> tests;
  for (const Source& source : all_sources(tree)) tests.merge(tests_in(source.text));
  const std::string document = "docs/reliability.md";
  const Findings findings = check_test_names(document, read_file(tree / document), tests);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(TestNames, AreReadFromSourcesAndDocuments) {
  const std::set<std::string> tests = tests_in(
      "TEST(Zip, IsRead) {\nTEST_F(A,  B) {\nTEST_P(Kills, Lose) {\n TEST(Not, It) {\nTESTS(X, Y)");
  EXPECT_EQ(tests, (std::set<std::string>{"Zip.IsRead", "A.B", "Kills.Lose"}));
  const auto faults = [&](std::string_view text) {
    return check_test_names("x.md", text, tests).size();
  };
  EXPECT_EQ(faults("`Zip.IsRead`, `Zip.*`, `*.Is*`, `All/Kills.Lose/train`, `a.b`, `Zip.h`"), 0u);
  EXPECT_EQ(faults("`Zip.IsReed`"), 1u);
  EXPECT_EQ(faults("`Zap.*` `Zip.*Write*`\n`Kills.Lost/train`"), 3u);
}

}  // namespace
}  // namespace deltasane::house
