#include "house/baseline.h"

#include <gtest/gtest.h>

#include "base/io/file.h"
#include "house/baseline_rules.h"
#include "support/scratch.h"

namespace deltasane::house {
namespace {

const Findings two{{"src/a.h:3", "x"}, {"src/b.h", "y"}};

TEST(Baseline, HidesListedViolationsOnly) {
  EXPECT_EQ(against_baseline(two, "", "n.txt"), two);
  EXPECT_EQ(against_baseline(two, "# known\nsrc/a.h  # soon\n", "n.txt"), (Findings{two[1]}));
  EXPECT_TRUE(against_baseline(two, "src/a.h\nsrc/b.h\n", "n.txt").empty());
}

TEST(Baseline, OnlyShrinks) {
  const Findings stale = against_baseline(two, "src/a.h\nsrc/b.h\nsrc/gone.h\n", "n.txt");
  ASSERT_EQ(stale.size(), 1u);
  EXPECT_EQ(stale[0].where, "test/house/n.txt");
  EXPECT_NE(stale[0].what.find("src/gone.h"), std::string::npos);
}

TEST(Baseline, OfARuleIsReadFromTheTree) {
  const test::Scratch scratch;
  fs::create_directories(scratch.path() / "src/train");
  fs::create_directories(scratch.path() / "test/house");
  replace_file(scratch.path() / "src/train/x.cpp", "y = std::log1p(std::exp(x));\n");
  replace_file(scratch.path() / "test/house/softplus.txt", "");
  EXPECT_EQ(check_rule("softplus.txt", scratch.path()).size(), 1u);
  replace_file(scratch.path() / "test/house/softplus.txt", "src/train/x.cpp\n");
  EXPECT_TRUE(check_rule("softplus.txt", scratch.path()).empty());
  replace_file(scratch.path() / "src/train/x.cpp", "");
  EXPECT_EQ(check_rule("softplus.txt", scratch.path()).size(), 1u);
}

}  // namespace
}  // namespace deltasane::house
