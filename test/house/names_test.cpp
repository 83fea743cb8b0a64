#include "house/names.h"

#include <gtest/gtest.h>

namespace deltasane::house {
namespace {

TEST(Names, HaveMeaningInThisTree) {
  const Findings findings = check_names(all_sources(DELTASANE_SOURCE));
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(Names, AreRejectedForOneBannedWord) {
  for (const char* path :
       {"src/base/util.h", "src/base/string_utils.h", "src/common/x.h", "src/train/DataManager.h",
        "src/kernel/fast_scan.cpp", "src/kernel/x-old.cpp", "src/text/info.cpp"})
    EXPECT_FALSE(check_names({{path, ""}}).empty()) << path;
}

TEST(Names, MayContainABannedWordInsideALongerOne) {
  for (const char* path : {"src/base/renew.h", "src/tensor/database.h", "src/text/breakfast.cpp"})
    EXPECT_TRUE(check_names({{path, ""}}).empty()) << path;
}

}  // namespace
}  // namespace deltasane::house
