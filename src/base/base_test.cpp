#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/choose.h"
#include "base/crc32/crc32.h"
#include "base/hash/xxh3.h"
#include "support/errors.h"

namespace deltasane {
namespace {

TEST(Cat, WritesNumbersThatReadBack) {
  EXPECT_EQ(cat("x=", 0.1, ", n=", -3, ", b=", true, '!', std::string("s")),
            "x=0.1, n=-3, b=true!s");
  EXPECT_EQ(cat(1e300), "1e+300");
  EXPECT_EQ(cat(0.1f), "0.1");
  EXPECT_EQ(cat(~uint64_t{0}), "18446744073709551615");
}

TEST(Choose, CallsTheBodyOfTheValueAndListsTheOptionsOtherwise) {
  int chosen = 0;
  choose<16, 32, 64>(32, "channels", [&]<int N>() { chosen = N; });
  EXPECT_EQ(chosen, 32);
  EXPECT_FAULT((choose<16, 32, 64>(48, "channels", [&]<int N>() { chosen = N; })), Fault::argument,
               "channels: expected one of 16, 32, 64, found 48");
  EXPECT_EQ(chosen, 32);
}

TEST(Checked, FailsInsteadOfWrapping) {
  EXPECT_EQ(checked_add(2, 3, "n"), 5u);
  EXPECT_EQ(checked_product(std::initializer_list<uint64_t>{2, 3, 7}, "n"), 42u);
  EXPECT_FAULT(checked_add(~uint64_t{0}, 1, "n"), Fault::file, "n: ");
  EXPECT_FAULT(checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32, "n"), Fault::file, "64 bits");
}

TEST(Xxh3, OfPiecesIsThatOfTheWhole) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += char(i * i);
  for (const size_t piece : {1, 7, 64, 1024, 5000}) {
    Xxh3 hash;
    for (size_t at = 0; at < text.size(); at += piece)
      hash.add(std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
    EXPECT_EQ(hash.digest(), XXH3_64bits(text.data(), text.size())) << piece;
  }
}

TEST(Crc32, IsTheKnownOne) {
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const std::string zeros(32, '\0');
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes_of(zeros)), 0x8A9136AAu);
}

TEST(RequireDeathTest, AbortsAndSaysWhere) {
  EXPECT_DEATH(require(false, "two is three"), "base_test.cpp.*two is three");
}

}  // namespace
}  // namespace deltasane
