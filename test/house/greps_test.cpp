#include "house/greps.h"

#include <gtest/gtest.h>

namespace deltasane::house {
namespace {

size_t faults(const std::string& path, const std::string& text) {
  return check_greps({{path, text}}).size();
}

TEST(Greps, FindNothingInThisTree) {
  const std::vector<Source> tree = all_sources(DELTASANE_SOURCE);
  EXPECT_GT(tree.size(), 20u);
  const Findings findings = check_greps(tree);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(Greps, SayWhere) {
  const Findings findings = check_greps({{"src/model/x.cpp", "int a;\n\nassert(a);\n"}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].where, "src/model/x.cpp:3");
}

TEST(Greps, FindRawLaunches) {
  EXPECT_EQ(faults("src/kernel/x/cuda.cu", "go<<<1, 2>>>(a);"), 1u);
  EXPECT_EQ(faults("src/tensor/cuda_launch.h", "go<<<1, 2>>>(a);"), 0u);
  EXPECT_EQ(faults("src/kernel/launch.h", "go<<<1, 2>>>(a);"), 1u);
  EXPECT_EQ(faults("src/kernel/x/x.cpp", "stream << a << (1 << 2);"), 0u);
}

TEST(Greps, FindAsserts) {
  EXPECT_EQ(faults("src/base/x.cpp", "assert(a);"), 1u);
  EXPECT_EQ(faults("src/base/x.cpp", "assert (a);"), 1u);
  EXPECT_EQ(faults("src/base/x.cpp", "static_assert(a); ASSERT_EQ(a, b);"), 0u);
}

TEST(Greps, FindPrinting) {
  for (const char* text : {"printf(\"a\");", "std::fprintf(f, a);", "snprintf (a, 1, b);",
                           "vsnprintf(a);", "x = 1; sprintf(a, b);"})
    EXPECT_EQ(faults("src/train/x.cpp", text), 1u) << text;
  EXPECT_EQ(faults("src/cli/x.cpp", "printf(a);"), 0u);
  EXPECT_EQ(faults("src/train/x.cpp", "my_printf(a); fmt::format(a);"), 0u);
}

TEST(Greps, FindPreprocessorConditions) {
  for (const char* text :
       {"#ifdef A", "#ifndef A", "#if A", "#if(A)", "  # if defined(A)", "#elif A"})
    EXPECT_EQ(faults("src/tensor/x.cpp", text), 1u) << text;
  for (const char* path : {"src/base/x.h", "src/kernel/isa.cpp", "src/eval/config.h"})
    EXPECT_EQ(faults(path, "#ifdef A\n#endif\n"), 0u) << path;
  EXPECT_EQ(faults("src/kernel/x.h", "#pragma once\n#include <a>\n#define A 1\n"), 0u);
}

TEST(Greps, FindRegularExpressions) {
  EXPECT_EQ(faults("src/text/x.cpp", "#include <regex>\n"), 1u);
  EXPECT_EQ(faults("src/text/x.cpp", "std::regex_match(a, b);"), 1u);
}

TEST(Greps, FindWhatEndsTheProcessWithoutMemory) {
  EXPECT_EQ(faults("src/answers/x.cpp", "thread_local Cache cache;"), 1u);
  EXPECT_EQ(faults("src/answers/x.cpp", "int thread_count; // thread_local"), 0u);
  EXPECT_EQ(faults("src/infer/x.cpp", "state = XXH3_createState();"), 1u);
  EXPECT_EQ(faults("src/eval/x.cpp", "json[\"rows\"].push_back(row);"), 1u);
  EXPECT_EQ(faults("src/eval/x.cpp", "array_at(json, \"rows\").push_back(row);"), 0u);
}

TEST(Greps, FindPlansInComments) {
  EXPECT_EQ(faults("src/text/x.cpp", "int a;  // TODO: b"), 1u);
  EXPECT_EQ(faults("src/text/x.cpp", "/* a\n FIXME(b) */"), 1u);
  EXPECT_EQ(faults("src/text/x.cpp", "// XXX"), 1u);
  EXPECT_EQ(faults("src/text/x.cpp", "mkdtemp(\"a-XXX\");  // aTODOb"), 0u);
}

TEST(Greps, FindFlagsInLiteralsOutsideOfCli) {
  for (const char* text :
       {"fail(\"use --device cpu\");", "f(\"a (--b-c)\");", "f(R\"x(\n--all)x\");"})
    EXPECT_EQ(faults("src/model/x.cpp", text), 1u) << text;
  EXPECT_EQ(faults("src/cli/x.cpp", "f(\"--device\");"), 0u);
  EXPECT_EQ(faults("src/model/x_test.cpp", "f(\"--device\");"), 0u);
  EXPECT_EQ(faults("test/house/x.cpp", "f(\"--device\");"), 0u);
  EXPECT_EQ(faults("src/model/x.cpp", "--i; f(\"a -- b, a--b, ---c, --1\");  // --device"), 0u);
}

TEST(Greps, ReadNeitherCommentsNorLiteralsAsCode) {
  EXPECT_EQ(faults("src/text/x.cpp", "// assert(a)\n/* <<<\nprintf(a) */ int b;"), 0u);
  EXPECT_EQ(faults("src/text/x.cpp", R"x(f("\"assert(a)", '"', "<<<"); )x"), 0u);
  EXPECT_EQ(faults("src/text/x.cpp", "f(R\"y(\n#if \" assert(a))y\", 1);"), 0u);
  EXPECT_EQ(faults("src/text/x.cpp", "f(R\"y(a)y\"); assert(b);"), 1u);
  EXPECT_EQ(faults("src/text/x.cpp", "f(1'000, '\"'); assert(b);"), 1u);
}

}  // namespace
}  // namespace deltasane::house
