// State files that were cut, changed or made by an enemy.
#include <gtest/gtest.h>

#include <limits>

#include "format/fixture_bytes.h"
#include "infer/state_fixture.h"
#include "infer/state_layout.h"
#include "support/errors.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Exact;

std::string good_file() {
  const test::Scratch scratch;
  save_state(scratch.path() / "state", test::example_state(1), test::example_stamp());
  return read_file(scratch.path() / "state");
}

void read(std::span<const std::byte> bytes) { read_state(bytes, "file"); }

// Makes the checksum right again: what an enemy would do.
std::string sealed(std::string bytes) {
  if (bytes.size() < 8) return bytes;
  StateHash hash;
  hash.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
  const uint64_t digest = hash.digest();
  std::memcpy(bytes.data() + bytes.size() - 8, &digest, 8);
  return bytes;
}

template <class T>
std::string with(size_t offset, T value) {
  std::string bytes = good_file();
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  return sealed(bytes);
}

// Where the fields lie: docs/state-file.md.
constexpr size_t version_at = 8, length_at = 12, position_at = 24, layers_at = 32, channels_at = 40,
                 heads_at = 48, head_size_at = 56, kind_at = 64, flags_at = 68, alpha_at = 72,
                 chunk_at = 80, last_token_at = 88, name_at = 92, creator_at = 96, sampler_at = 100,
                 texts_at = 104, numbers_at = 128;
constexpr size_t number_count = 2 * (2 * 6 + 2 * 3 * 3);

TEST(StateDamage, TheFileIsLaidOutAsTheDocumentSays) {
  const std::string bytes = good_file();
  ASSERT_EQ(bytes.size(), numbers_at + 4 * number_count + 8);
  EXPECT_EQ(bytes.substr(texts_at, 21), std::string("small \xf0\x9f\x90\xa6test 1.0\1\2\0", 21));
  test::Bytes fields;
  fields
      .text(
          "\x89"
          "DSTAT\r\n")
      .number(uint32_t{1})
      .number(uint32_t{112});
  fields.number(uint64_t{1234567890123}).number(int64_t{1001});
  fields.number(int64_t{2}).number(int64_t{6}).number(int64_t{2}).number(int64_t{3});
  fields.number(uint32_t{2}).number(uint32_t{3}).number(3.0).number(int64_t{16});
  fields.number(int32_t{42}).number(uint32_t{10}).number(uint32_t{8}).number(uint32_t{3});
  EXPECT_EQ(bytes.substr(0, texts_at), fields.string());
  float first;
  std::memcpy(&first, bytes.data() + numbers_at, 4);
  EXPECT_EQ(first, test::example_state(1).shift()[0]);
}

TEST(StateDamage, RefusesEveryCut) {
  test::expect_every_cut_refused(good_file(), read);
  const std::string good = good_file();
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(test::accepted(sealed(good.substr(0, length)), read)) << length;
  EXPECT_FAULT(read(Exact(good + "x").span()), Fault::file, "the file is damaged");
}

TEST(StateDamage, RefusesEveryFlippedBit) {
  const std::string good = good_file();
  for (size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bytes = good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(test::accepted(bytes, read)) << "byte " << i / 8 << ", bit " << i % 8;
  }
}

TEST(StateDamage, SurvivesEveryFlippedBitWithARightChecksum) {
  const std::string good = good_file();
  int read_well = 0;
  for (size_t i = 0; i < 8 * good.size() - 64; ++i) {
    std::string bytes = good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    read_well += test::accepted(sealed(bytes), read);
  }
  EXPECT_GT(read_well, 1000);  // most flips in numbers and texts
}

TEST(StateDamage, SurvivesRandomDamageWithARightChecksum) {
  const auto read_sealed = [](std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    read(Exact(sealed(text)).span());
  };
  test::expect_mutations_survived(good_file(), 1, 20000, read_sealed);
}

TEST(StateDamage, RefusesAbsurdSizesBeforeTakingMemory) {
  for (const size_t at : {layers_at, channels_at, heads_at, head_size_at}) {
    for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, max_state_size + 1})
      EXPECT_FAULT(read(Exact(with(at, wrong)).span()), Fault::file, "expected sizes from 1 to");
    EXPECT_FAULT(read(Exact(with(at, max_state_size)).span()), Fault::file, "the file is damaged");
  }
  std::string bytes = good_file();
  for (const size_t at : {layers_at, channels_at, heads_at, head_size_at})
    std::memcpy(bytes.data() + at, &max_state_size, 8);
  EXPECT_FAULT(read(Exact(sealed(bytes)).span()), Fault::file, "does not fit in 64 bits");
  for (const uint32_t wrong : {113u, 1u << 24, 0xffffffffu})
    EXPECT_FALSE(test::accepted(with(length_at, wrong), read));
  EXPECT_FAULT(read(Exact(with(length_at, ~0u)).span()), Fault::file,
               "expected a header of at most");
  for (const size_t at : {name_at, creator_at, sampler_at})
    for (const uint32_t wrong : {100u, 4097u, 0xffffffffu})
      EXPECT_FALSE(test::accepted(with(at, wrong), read));
}

TEST(StateDamage, RefusesFieldsThatMakeNoSense) {
  const auto refuses = [](const std::string& bytes, std::string_view part) {
    EXPECT_FAULT(read(Exact(bytes).span()), Fault::file, part);
  };
  refuses("", "expected a state file");
  refuses(with(0, 'x'), "expected a state file, found another kind");
  refuses(with(version_at, 2), "expected version 1 of a state file, found 2; a later version");
  refuses(with(version_at, 0), "expected version 1 of a state file, found 0");
  refuses(with(position_at, int64_t{-1}), "position: expected 0 or more, found -1");
  refuses(with(kind_at, 3), "expected a kind of 0, 1 or 2, found 3");
  refuses(with(kind_at, 0), "found none with alpha 3, chunk 16");
  refuses(with(alpha_at, std::numeric_limits<double>::quiet_NaN()), "alpha");
  refuses(with(alpha_at, -1.0), "alpha -1");
  refuses(with(chunk_at, int64_t{-16}), "chunk -16");
  refuses(with(flags_at, 7), "flags: expected 0 to 3, found 7");
  refuses(with(flags_at, 2), "last token: expected 0 or more, and 0 for none, found 42");
  refuses(with(flags_at, 1), "sampler state: expected bytes if flag 2 is set, found 3");
  refuses(with(last_token_at, -1), "last token");
  refuses(with(sampler_at, 0), "sampler state");
  refuses(with(numbers_at - 1, 'x'), "expected zeros up to the next multiple of 64");
  EXPECT_FAULT(
      read(Exact(with(numbers_at + 4 * 30, std::numeric_limits<float>::infinity())).span()),
      Fault::overflow, "file: state overflowed at position 1001 in layer 0, head 0: row 2");
}

}  // namespace
}  // namespace deltasane
