#include "house/architecture_names.h"

#include <gtest/gtest.h>

#include "house/baseline_rules.h"

namespace deltasane::house {
namespace {

TEST(ArchitectureNames, AreInTheirFoldersOnly) {
  EXPECT_FALSE(architecture_names(sources(DELTASANE_SOURCE, "src")).empty());
  const Findings findings = check_rule("architecture_names.txt", DELTASANE_SOURCE);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(ArchitectureNames, AreFoldersWithABlockOrAModel) {
  EXPECT_EQ(architecture_names({{"src/model/abc1/model.h", ""},
                                {"src/model/gated_net/block.h", ""},
                                {"src/model/parts/sum.h", ""},
                                {"src/model/model.h", ""},
                                {"src/infer/engine/model.h", ""}}),
            (std::set<std::string>{"abc1", "gated_net"}));
}

TEST(ArchitectureNames, MatchInAnyCaseAndWithSeparators) {
  for (const char* text : {"abc1", "ABC-1", "Abc1Shape", "abc_1", "OnAbc1", "x.abc1.y", "abc1a"})
    EXPECT_TRUE(contains_architecture_name(text, "abc1")) << text;
  for (const char* text : {"abc.cpp", "ABC World", "abc 1", "xabc1", "abc2"})
    EXPECT_FALSE(contains_architecture_name(text, "abc1")) << text;
  EXPECT_TRUE(contains_architecture_name("GatedNet", "gated_net"));
  EXPECT_TRUE(contains_architecture_name("gated-net", "gated_net"));
  EXPECT_FALSE(contains_architecture_name("gated_nets", "gated_net"));
}

size_t violations(const std::string& path, const std::string& text) {
  return check_architecture_names({{"src/model/abc1/model.h", "Abc1"}, {path, text}}).size();
}

TEST(ArchitectureNames, AreFoundInCodeCommentsLiteralsAndPaths) {
  EXPECT_EQ(violations("src/infer/x.cpp", "Abc1Model model;"), 1u);
  EXPECT_EQ(violations("src/infer/x.cpp", "// as ABC-1 does"), 1u);
  EXPECT_EQ(violations("src/cli/x.cpp", "f(\"abc1-0.4b.gguf\");"), 1u);
  EXPECT_EQ(violations("src/kernel/abc1/x.cu", ""), 1u);
  EXPECT_EQ(violations("src/train/CMakeLists.txt", "abc1.cpp"), 1u);
  EXPECT_EQ(violations("src/model/other/x.cpp", "Abc1 a;"), 1u);
  EXPECT_EQ(check_architecture_names(
                {{"src/model/abc1/block.h", ""}, {"src/infer/x.cpp", "int a;\nAbc1 b;\n"}})[0]
                .where,
            "src/infer/x.cpp:2");
}

TEST(ArchitectureNames, MayBeInTheRegistryInTestsAndOutsideOfSrc) {
  for (const char* path :
       {"src/model/abc1/gpu/x.cpp", "src/model/architectures.cpp", "src/model/CMakeLists.txt",
        "src/infer/x_test.cpp", "src/infer/gpu/test.cpp", "src/infer/fixture_abc1.h",
        "src/infer/state_fixture.h", "test/x.cpp"})
    EXPECT_EQ(violations(path, "Abc1 a;"), 0u) << path;
}

}  // namespace
}  // namespace deltasane::house
