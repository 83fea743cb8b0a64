#include "base/crc32/crc32.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/crc32/ways.h"
#include "base/random.h"

namespace deltasane {
namespace {

TEST(Crc32, HasTheKnownValue) {
  const auto of = [](std::string_view text) { return crc32(std::as_bytes(std::span(text))); };
  EXPECT_EQ(of("123456789"), 0xcbf43926u);
  EXPECT_EQ(of(""), 0u);
  EXPECT_EQ(of("The quick brown fox jumps over the lazy dog"), 0x414fa339u);
  // As zlib has them.
  EXPECT_EQ(crc32(std::vector<std::byte>(1 << 20)), 0xa738ea1cu);
  std::vector<std::byte> counted(100'003);
  for (size_t i = 0; i < counted.size(); ++i) counted[i] = std::byte(i * 7 + (i >> 8));
  EXPECT_EQ(crc32(counted), 0x0b697026u);
}

TEST(Crc32, EveryWayGivesTheDefinition) {
  std::vector<crc::Crc32Way> ways = crc::instruction_ways();
  ways.push_back({"tables", crc32_tables});
  ways.push_back({"chosen", crc32});
  Random random(1);
  std::vector<std::byte> bytes(10'000);
  for (std::byte& byte : bytes) byte = std::byte(random.word());
  const std::span<const std::byte> all(bytes);
  for (size_t length : {0,   1,   7,   8,   9,   15,   16,   17,   63,   64,   65,   79,   80,
                        100, 127, 128, 129, 255, 1000, 1024, 3071, 3072, 3073, 6144, 6151, 9000})
    for (size_t start : {0, 1, 3, 8}) {
      const auto part = all.subspan(start, length);
      const auto first = part.first(length / 3), rest = part.subspan(length / 3);
      const uint32_t expected = crc32_reference(part);
      for (const auto& [name, compute] : ways) {
        EXPECT_EQ(compute(part, 0), expected) << name << " " << length;
        EXPECT_EQ(compute(rest, compute(first, 0)), expected) << name << " " << length;
      }
      EXPECT_EQ(crc32_of_both(crc32(first), crc32(rest), rest.size()), expected) << length;
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
