#include "house/isa_symbols.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/io/file.h"

namespace deltasane::house {
namespace {

// Whether a CMakeLists.txt of the kernels asks for it.
bool compiles_per_isa() {
  const fs::path kernels = DELTASANE_SOURCE "/src/kernel";
  if (!fs::exists(kernels)) return false;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kernels))
    if (entry.path().filename() == "CMakeLists.txt" &&
        read_file(entry.path()).find("deltasane_isa_sources(") != std::string::npos)
      return true;
  return false;
}

Findings check(const std::string& isa, const std::string& symbols) {
  return check_isa_symbols({{isa, "x.o", symbols}});
}

TEST(IsaSymbols, StayApartInThisBuild) {
  if (!compiles_per_isa()) GTEST_SKIP() << "nothing is compiled per instruction set yet";
  if (std::string_view(DELTASANE_SANITIZER) != "")
    GTEST_SKIP() << "sanitizers add code of their own";
  if (std::string_view(DELTASANE_BUILD_TYPE) == "Debug")
    GTEST_SKIP() << "a debug build inlines nothing";
  if (std::string_view(DELTASANE_WIDE_ISAS) == "")
    GTEST_SKIP() << "only portable code is built for this processor family";
  const std::vector<IsaObject> objects = read_isa_objects(DELTASANE_ISA_OBJECTS, DELTASANE_NM);
  const auto wide = std::ranges::count_if(objects, [](const IsaObject& object) {
    return object.isa != "portable" && !object.symbols.empty();
  });
  EXPECT_GT(wide, 0) << "expected objects of " DELTASANE_WIDE_ISAS ", found none";
  const Findings findings = check_isa_symbols(objects);
  EXPECT_TRUE(findings.empty()) << to_string(findings);
}

TEST(IsaSymbols, MayBeWeakInTheirOwnNamespace) {
  EXPECT_TRUE(check("avx2",
                    "0000000000000000 W _ZN9deltasane6kernel3cpu3dotILi4EEEfPKf\n"
                    "0000000000000000 W _ZNK9deltasane6kernel3cpu4Lane3getEv\n"
                    "0000000000000000 V _ZZN9deltasane6kernel3cpu3dotEPKfE5table\n"
                    "0000000000000000 u _ZGVZN9deltasane6kernel3cpu3dotEPKfE5table\n")
                  .empty());
}

TEST(IsaSymbols, MustNotBeWeakElsewhere) {
  for (const char* symbol :
       {"W _ZSt3minIfERKT_S2_S2_", "W _ZN9deltasane3catIJiEEESsDpRKT_", "V _ZTVN9deltasane5ErrorE",
        "u _ZN9deltasane6kernel5tableE", "W plain_name",
        "W _ZSt4swapIN9deltasane6kernel3cpu4LaneEEvRT_S5_", "W _Z9deltasane6kernel3cpu"}) {
    EXPECT_EQ(check("avx2", std::string("0000000000000000 ") + symbol + "\n").size(), 1u) << symbol;
    EXPECT_TRUE(check("portable", std::string("0000000000000000 ") + symbol + "\n").empty())
        << symbol;
  }
  EXPECT_EQ(check("neon", "0000000000000000 W _ZSt3minIfERKT_S2_S2_\n")[0].what,
            "shares float const& std::min<float>(float const&, float const&) with every object");
}

TEST(IsaSymbols, MayBeStrongOrOnlyUsed) {
  EXPECT_TRUE(
      check("avx2",
            "0000000000000000 T _ZN9deltasane3runEv\n                 U _ZN9deltasane4failEv\n"
            "                 w __gmon_start__\n0000000000000000 t _ZL4self\n"
            "0000000000000000 V DW.ref.__gxx_personality_v0\n")
          .empty());
}

TEST(IsaSymbols, MustNotBeTheSameForTwoInstructionSets) {
  const std::string dot = "0000000000000000 W _ZN9deltasane6kernel3cpu3dotEPKf\n";
  EXPECT_EQ(check_isa_symbols({{"portable", "a.o", dot}, {"avx2", "b.o", dot}}).size(), 1u);
  EXPECT_EQ(check_isa_symbols({{"avx2", "a.o", dot}, {"avx512", "b.o", dot}}).size(), 1u);
  EXPECT_TRUE(check_isa_symbols({{"avx2", "a.o", dot}, {"avx2", "b.o", dot}}).empty());
}

}  // namespace
}  // namespace deltasane::house
