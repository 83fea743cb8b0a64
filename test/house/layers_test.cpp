#include "house/layers.h"

#include <gtest/gtest.h>

namespace deltasane::house {
namespace {

Findings layer_findings(const std::string& path, const std::string& text) {
  return check_layers({{path, text}});
}

TEST(Layers, HoldInThisTree) {
  const std::vector<Source> tree = sources(DELTASANE_SOURCE, "src");
  EXPECT_GT(tree.size(), 10u);
  const Findings findings = check_layers(tree);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(Layers, AllowLowerLevelsAndTheSameFolder) {
  EXPECT_TRUE(
      layer_findings("src/model/x.cpp",
                     "#include <vector>\n#include \"base/error.h\"\n#include \"model/x.h\"\n"
                     "# include \"kernel/delta_rule/delta_rule.h\"\n")
          .empty());
  EXPECT_TRUE(layer_findings("src/base/x_test.cpp", "#include \"support/scratch.h\"\n").empty());
}

TEST(Layers, RejectHigherLevelsAndSiblings) {
  const Findings up =
      layer_findings("src/base/x.h", "#pragma once\n\n#include \"tensor/view.h\"\n");
  ASSERT_EQ(up.size(), 1u);
  EXPECT_EQ(up[0].where, "src/base/x.h:3");
  EXPECT_NE(up[0].what.find("tensor/view.h"), std::string::npos);
  EXPECT_EQ(layer_findings("src/kernel/x.cpp", "#include \"format/shard.h\"\n").size(), 1u);
  EXPECT_EQ(layer_findings("src/eval/x.cpp", "  #  include \"cli/command.h\"\n").size(), 1u);
}

TEST(Layers, RejectWhatHasNoLevel) {
  EXPECT_EQ(layer_findings("src/util/x.cpp", "").size(), 1u);
  EXPECT_EQ(layer_findings("src/main.cpp", "").size(), 1u);
  EXPECT_EQ(layer_findings("src/cli/x.cpp", "#include \"common/x.h\"\n").size(), 1u);
  EXPECT_EQ(layer_findings("src/cli/x.cpp", "#include \"x.h\"\n").size(), 1u);
  EXPECT_EQ(layer_findings("src/cli/x.cpp", "#include \"../base/error.h\"\n").size(), 1u);
  EXPECT_EQ(layer_findings("src/base/x.cpp", "#include \"support/scratch.h\"\n").size(), 1u);
}

TEST(Layers, DoNotReadComments) {
  EXPECT_TRUE(
      layer_findings("src/base/x.h", "// #include \"cli/x.h\"\n/*\n#include \"cli/x.h\"\n*/")
          .empty());
}

}  // namespace
}  // namespace deltasane::house
