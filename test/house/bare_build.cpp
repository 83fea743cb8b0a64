// Builds the tree from a compiler and a folder of headers, as on a machine without packages,
// and looks at what the build really used. Every file is read with these headers; one that reads
// the same as in the build around this test is not compiled a second time (reuse_object).
#include <gtest/gtest.h>

#include "base/io/file.h"
#include "house/bare.h"
#include "support/process.h"

namespace deltasane::house {
namespace {

TEST(Bare, TreeBuildsWithACompilerAndAFolderOfHeaders) {
  const fs::path root = DELTASANE_SOURCE, folder = DELTASANE_BARE_FOLDER;
  const fs::path headers = folder / "headers", build = folder / "build";
  const fs::path program = build / DELTASANE_BARE_PROGRAM;
  const auto succeeds = [](const std::vector<std::string>& words) {
    const test::Outcome outcome = test::run(words);
    EXPECT_EQ(outcome.exit_code, 0) << words[0] << " " << words[1] << "\n" << outcome.output;
    return outcome;
  };

  succeeds({root / "tools/collect_headers", headers});
  succeeds({DELTASANE_CMAKE, "-S", root, "-B", build, "-G", "Ninja",
            "-DCMAKE_CXX_COMPILER=" DELTASANE_CXX, "-DCMAKE_MAKE_PROGRAM=" DELTASANE_NINJA,
            "-DCMAKE_CXX_COMPILER_LAUNCHER=" + (root / "test/house/reuse_object").string() +
                ";" DELTASANE_NINJA ";" DELTASANE_BUILD,
            "-DCMAKE_BUILD_TYPE=" DELTASANE_BUILD_TYPE, "-DDELTASANE_LIBRARIES=OFF",
            "-DDELTASANE_TESTS=OFF", "-DCMAKE_UNITY_BUILD=" DELTASANE_UNITY,
            "-DCMAKE_UNITY_BUILD_BATCH_SIZE=" DELTASANE_UNITY_BATCH,
            "-DDELTASANE_HEADERS=" + headers.string()});
  if (HasFailure()) return;
  succeeds({DELTASANE_CMAKE, "--build", build});
  if (HasFailure()) return;

  const test::Outcome dependencies = succeeds({DELTASANE_NINJA, "-C", build, "-t", "deps"});
  EXPECT_NE(dependencies.output.find("src/base/error.h"), std::string::npos);
  const Findings foreign = check_headers(dependencies.output, root, headers);
  EXPECT_TRUE(foreign.empty()) << to_string(foreign);

  if (program == build / "") return;  // the tree has no program yet
  const Findings linked =
      check_shared_libraries(succeeds({DELTASANE_READELF, "-d", program}).output);
  EXPECT_TRUE(linked.empty()) << to_string(linked);
  succeeds({program, "--version"});
}

}  // namespace
}  // namespace deltasane::house
