#include "house/bare.h"

#include <gtest/gtest.h>

namespace deltasane::house {
namespace {

size_t faults(const std::string& path) {
  return check_headers(
             "a.o: #deps 2, deps mtime 1 (VALID)\n    /p/src/base/a.cpp\n    " + path + "\n", "/p",
             "/q/headers")
      .size();
}

TEST(Bare, MayUseTheCompilerTheProjectAndTheFolder) {
  for (const char* path :
       {"/p/src/comm/mpi.h", "/q/headers/fmt/format.h", "/usr/include/c++/12/vector",
        "/usr/include/aarch64-linux-gnu/c++/12/bits/c++config.h", "/usr/include/stdio.h",
        "/usr/include/x86_64-linux-gnu/sys/mman.h",
        "/usr/lib/gcc/x86_64-linux-gnu/12/include/arm.h"})
    EXPECT_EQ(faults(path), 0u) << path;
}

TEST(Bare, MustNotUseWhatHappensToBeInstalled) {
  for (const char* path :
       {"/usr/include/fmt/format.h", "/usr/include/xxhash.h", "/usr/local/include/CLI/CLI.hpp",
        "/usr/include/aarch64-linux-gnu/gmp.h", "/usr/include/x86_64-linux-gnu/openblas/cblas.h",
        "/opt/x/include/stdio.h", "/q/headers/../fmt/format.h"})
    EXPECT_EQ(faults(path), 1u) << path;
}

TEST(Bare, LinksOnlyWhatTheCompilerBrings) {
  const std::string plain =
      " 0x01 (NEEDED)  Shared library: [libstdc++.so.6]\n 0x01 (NEEDED)  Shared library: "
      "[libc.so.6]\n"
      " 0x01 (NEEDED)  Shared library: [ld-linux-aarch64.so.1]\n 0x1e (FLAGS)  BIND_NOW\n";
  EXPECT_TRUE(check_shared_libraries(plain).empty());
  const Findings findings =
      check_shared_libraries(plain + " 0x01 (NEEDED)  Shared library: [libmpfr.so.6]\n");
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].where, "libmpfr.so.6");
}

}  // namespace
}  // namespace deltasane::house
