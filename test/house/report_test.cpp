#include "house/report.h"

#include <gtest/gtest.h>

namespace deltasane::house {
namespace {

constexpr std::string_view junit = R"(<testsuite tests="5">
	<testcase name="A.Passes" classname="A.Passes" time="0.1" status="run">
		<system-out>note: src/x.cpp: 600 lines
[       OK ] A.Passes</system-out>
	</testcase>
	<testcase name="B.Skips/&lt;int&gt;" classname="B" time="0" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
		<system-out>[ RUN      ] B.Skips/&lt;int&gt;
/a/b.cpp:7: Skipped
no device &amp; no luck
today

[  SKIPPED ] B.Skips/&lt;int&gt; (0 ms)</system-out>
	</testcase>
	<testcase name="many_test" classname="many_test" time="1" status="run">
		<system-out>[ RUN      ] E.Passes
[       OK ] E.Passes (0 ms)
[ RUN      ] E.Skips
/a/e.cpp:9: Skipped


[  SKIPPED ] E.Skips (0 ms)
[ RUN      ] E.SkipsToo
/a/e.cpp:9: Skipped
no network

[  SKIPPED ] E.SkipsToo (0 ms)
[  SKIPPED ] 2 tests, listed below:
[  SKIPPED ] E.Skips</system-out>
	</testcase>
	<testcase name="C.Silent" classname="C.Silent" time="0" status="notrun">
		<skipped message=""/>
		<system-out></system-out>
	</testcase>
	<testcase name="D.Off" classname="D.Off" time="0" status="disabled">
		<system-out></system-out>
	</testcase>
</testsuite>
)";

TEST(Report, HoldsSkipsWithReasonsAndNotes) {
  const Report report = read_report(junit);
  EXPECT_EQ(report.tests, 5u);
  const std::vector<Skip> skips{{"B.Skips/<int>", "no device & no luck today"},
                                {"E.Skips", "no reason given"},
                                {"E.SkipsToo", "no network"},
                                {"C.Silent", "no reason given"},
                                {"D.Off", "disabled"}};
  EXPECT_EQ(report.skips, skips);
  EXPECT_EQ(report.notes, std::vector<std::string>{"src/x.cpp: 600 lines"});
}

TEST(Report, ExpectsASkipByNameAndReason) {
  const std::string expected = "# a comment\n\nB.Skips*  no device*\n";
  EXPECT_TRUE(is_expected({"B.Skips/3", "no device found"}, expected));
  EXPECT_FALSE(is_expected({"B.Skips/3", "no reason given"}, expected));
  EXPECT_FALSE(is_expected({"A.Skips", "no device found"}, expected));
  EXPECT_FALSE(is_expected({"B.Skips", "no device"}, ""));
  EXPECT_FALSE(is_expected({"B.Skips", "no device"}, "# B.Skips no device\nB.Skips\n"));
}

}  // namespace
}  // namespace deltasane::house
