#include "house/sizes.h"

#include <gtest/gtest.h>

#include <iostream>

namespace deltasane::house {
namespace {

Source of_lines(int count) {
  Source source{"src/base/x.h", ""};
  for (int i = 0; i < count; ++i) source.text += "// line\n";
  return source;
}

TEST(Sizes, AreHeldInThisTree) {
  const Sizes sizes = check_sizes(all_sources(DELTASANE_SOURCE));
  for (const Finding& finding : sizes.long_ones)  // the report of `make test` repeats these lines
    std::cout << "note: " << finding.where << ": " << finding.what << "\n";
  EXPECT_TRUE(sizes.too_long.empty()) << to_string(sizes.too_long);
}

TEST(Sizes, ListFrom501LinesAndRefuseFrom801) {
  EXPECT_TRUE(check_sizes({of_lines(500)}).long_ones.empty());
  EXPECT_EQ(check_sizes({of_lines(501)}).long_ones.size(), 1u);
  EXPECT_TRUE(check_sizes({of_lines(800)}).too_long.empty());
  EXPECT_EQ(check_sizes({of_lines(801)}).too_long.size(), 1u);
  EXPECT_TRUE(check_sizes({of_lines(801)}).long_ones.empty());
}

}  // namespace
}  // namespace deltasane::house
