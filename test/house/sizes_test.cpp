#include "house/sizes.h"

#include <gtest/gtest.h>

#include "base/cat.h"
#include "house/baseline_rules.h"

namespace deltasane::house {
namespace {

Source of_lines(int count) {
  Source source{"src/base/x.h", ""};
  for (int i = 0; i < count; ++i) source.text += "// line\n";
  return source;
}

std::vector<std::string> files_in(const std::string& folder, int count) {
  std::vector<std::string> paths;
  for (int i = 0; i < count; ++i) paths.push_back(cat(folder, "/x", i, ".cpp"));
  return paths;
}

TEST(Sizes, OfSourcesHoldInThisTree) {
  const Findings findings = check_rule("long_sources.txt", DELTASANE_SOURCE);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(Sizes, OfFoldersHoldInThisTree) {
  EXPECT_GT(files_below(DELTASANE_SOURCE, "src").size(), 100u);
  const Findings findings = check_rule("large_folders.txt", DELTASANE_SOURCE);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(Sizes, OfSourcesAreLimitedTo500Lines) {
  EXPECT_TRUE(check_lines({of_lines(500)}).empty());
  EXPECT_EQ(check_lines({of_lines(501)}).size(), 1u);
}

TEST(Sizes, OfFoldersAreLimitedTo25Files) {
  EXPECT_TRUE(check_folders(files_in("src/base", 25)).empty());
  const Findings findings = check_folders(files_in("src/base", 26));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].where, "src/base");
  std::vector<std::string> nested = files_in("src/base", 20);
  for (const std::string& path : files_in("src/base/inner", 20)) nested.push_back(path);
  EXPECT_TRUE(check_folders(nested).empty());
}

}  // namespace
}  // namespace deltasane::house
