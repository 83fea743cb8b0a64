#include "base/crc32/crc32.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/random.h"

namespace deltasane {
namespace {

TEST(Crc32, HasTheKnownValue) {
  const auto of = [](std::string_view text) { return crc32(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of("123456789"), 0xcbf43926u);
  EXPECT_EQ(of(""), 0u);
}

TEST(Crc32, EveryWayGivesTheDefinition) {
  Random random(1);
  std::vector<std::byte> bytes(10'000);
  for (std::byte& byte : bytes) byte = std::byte(random.word());
  const std::span<const std::byte> all(bytes);
  for (size_t length : {0, 1, 7, 8, 9, 63, 64, 65, 100, 1000, 3 * 256, 3 * 256 + 1, 9000})
    for (size_t start : {0, 1, 3, 8}) {
      const auto part = all.subspan(start, length);
      const uint32_t expected = crc32_reference(part);
      EXPECT_EQ(crc32_tables(part), expected) << length;
      EXPECT_EQ(crc32_instruction(part).value_or(expected), expected) << length;
      EXPECT_EQ(crc32(part), expected) << length;
      const auto first = part.first(length / 3), rest = part.subspan(length / 3);
      EXPECT_EQ(crc32(rest, crc32(first)), expected) << length;
      EXPECT_EQ(crc32_tables(rest, crc32_tables(first)), expected) << length;
    }
}

TEST(Crc32, EveryBitCounts) {
  std::vector<std::byte> bytes(100, std::byte{0x5a});
  const uint32_t whole = crc32(bytes);
  for (std::byte& byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      byte ^= std::byte(1 << bit);
      EXPECT_NE(crc32(bytes), whole);
      byte ^= std::byte(1 << bit);
    }
}

}  // namespace
}  // namespace deltasane
