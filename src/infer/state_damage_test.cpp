// State files of both versions that were cut, changed, or made with intent to break a reader.
#include <gtest/gtest.h>

#include <limits>

#include "base/hash/xxh3.h"
#include "infer/state_fixture.h"
#include "infer/state_layout.h"
#include "support/errors.h"
#include "support/fixture_bytes.h"
#include "support/scratch.h"

namespace deltasane {
namespace {

using test::Exact;

void read(std::span<const std::byte> bytes) { read_state(bytes, "file"); }

// Makes the checksum right again, as whoever forges a file would.
std::string sealed(std::string bytes) {
  if (bytes.size() < 8) return bytes;
  Xxh3 hash;
  hash.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
  const uint64_t digest = hash.digest();
  std::memcpy(bytes.data() + bytes.size() - 8, &digest, 8);
  return bytes;
}

test::Bytes prefix_of(uint32_t version, uint32_t length) {
  test::Bytes fields;
  fields
      .text(
          "\x89"
          "DSTAT\r\n")
      .number(version)
      .number(length);
  return fields.number(uint64_t{1234567890123}).number(int64_t{1001});
}

// From the SANE kind to the sampler's bytes, of the example stamp.
void add_stamp(test::Bytes& fields) {
  fields.number(uint32_t{2}).number(uint32_t{3}).number(3.0).number(int64_t{16});
  fields.number(int32_t{42}).number(uint32_t{10}).number(uint32_t{8}).number(uint32_t{3});
  fields.text(std::string("small \xf0\x9f\x90\xa6test 1.0\1\2\0", 21)).pad(64);
}

void add_numbers(test::Bytes& fields, const SequenceState& state) {
  const auto add = [&](std::span<const float> numbers) {
    fields.floats({numbers.begin(), numbers.end()});
  };
  add(state.fixed());
  for (int64_t i = 0; i < state.layout().caches(); ++i) add(state.cache(i));
}

// As programs before layouts wrote it, byte by byte.
std::string version_1_file() {
  test::Bytes fields = prefix_of(1, 112);
  fields.number(int64_t{2}).number(int64_t{6}).number(int64_t{2}).number(int64_t{3});
  add_stamp(fields);
  add_numbers(fields, test::example_state(1));
  return sealed(fields.number(uint64_t{0}).string());
}

std::string version_2_file() {
  const test::Scratch scratch;
  save_state(scratch.path() / "state", test::mixed_state(1), test::example_stamp());
  return read_file(scratch.path() / "state");
}

// A version and where its fields lie: docs/state-file.md.
struct Version {
  uint32_t number;
  std::string good;
  size_t stamp_at, numbers_at, number_count;
  std::vector<size_t> sizes_at;
  size_t broken_number;  // and how its place is called
  std::string place;

  size_t kind_at() const { return stamp_at; }
  size_t flags_at() const { return stamp_at + 4; }
  size_t alpha_at() const { return stamp_at + 8; }
  size_t chunk_at() const { return stamp_at + 16; }
  size_t last_token_at() const { return stamp_at + 24; }
  size_t name_at() const { return stamp_at + 28; }
  size_t creator_at() const { return stamp_at + 32; }
  size_t sampler_at() const { return stamp_at + 36; }
  size_t texts_at() const { return stamp_at + 40; }

  template <class T>
  std::string with(size_t offset, T value) const {
    std::string bytes = good;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return sealed(bytes);
  }
};

// Of version 2: the first part's fields, and those of the memory.
constexpr size_t version_at = 8, length_at = 12, position_at = 24, count_at = 32, part_at = 36,
                 part_name_size_at = 40, rank_at = 44, layer_at = 48, rows_at = 72,
                 part_name_at = 80, memory_at = part_at + 48 + 48 + 41;

class StateDamage : public testing::TestWithParam<uint32_t> {
 protected:
  const Version v =
      GetParam() == 1
          ? Version{1,  version_1_file(),        64, 128, 2 * (2 * 6 + 2 * 3 * 3), {32, 40, 48, 56},
                    30, "layer 0, head 0: row 2"}
          : Version{2,
                    version_2_file(),
                    273,
                    384,
                    8 + 5 + 12 + 18,
                    {56, 64, 104, 112, 152, memory_at + 20, memory_at + 28, memory_at + 36},
                    13 + 6 + 3,
                    "layer 1, head 1: row 1, column 1"};
};

TEST_P(StateDamage, TheFileIsLaidOutAsTheDocumentSays) {
  ASSERT_EQ(v.good.size(), v.numbers_at + 4 * v.number_count + 8);
  test::Bytes fields = prefix_of(GetParam(), uint32_t(v.numbers_at) - 16);
  if (v.number == 1) {
    fields.number(int64_t{2}).number(int64_t{6}).number(int64_t{2}).number(int64_t{3});
  } else {
    const auto part = [&](uint32_t kind, std::string_view name, int64_t layer,
                          const std::vector<int64_t>& sizes, int64_t rows) {
      fields.number(kind).number(uint32_t(name.size())).number(uint32_t(sizes.size()));
      fields.number(layer);
      for (const int64_t size : sizes) fields.number(size);
      fields.number(rows).text(name);
    };
    fields.number(uint32_t{5});
    part(3, "keys", 0, {2, 3}, 3);
    part(2, "conv", 1, {2, 4}, 1);
    part(1, "shift", 2, {5}, 1);
    part(0, "memory", 1, {2, 3, 2}, 1);
    part(3, "values", 0, {4}, 0);
  }
  EXPECT_EQ(fields.size(), v.stamp_at);
  add_stamp(fields);
  EXPECT_EQ(fields.size(), v.numbers_at);
  const SequenceState state = v.number == 1 ? test::example_state(1) : test::mixed_state(1);
  add_numbers(fields, state);
  EXPECT_EQ(v.good, sealed(fields.number(uint64_t{0}).string()));
  EXPECT_EQ(v.good.substr(v.texts_at(), 21),
            std::string("small \xf0\x9f\x90\xa6test 1.0\1\2\0", 21));

  const SavedState saved = read_state(Exact(v.good).span(), "file");
  EXPECT_EQ(saved.state.layout(), state.layout());
  EXPECT_EQ(saved.state.position, 1001);
  EXPECT_EQ(saved.stamp, test::example_stamp());
  EXPECT_TRUE(std::ranges::equal(saved.state.fixed(), state.fixed()));
  for (int64_t i = 0; i < state.layout().caches(); ++i)
    EXPECT_TRUE(std::ranges::equal(saved.state.cache(i), state.cache(i)));
}

TEST_P(StateDamage, RefusesEveryCut) {
  test::expect_every_cut_rejected(v.good, read);
  for (size_t length = 0; length < v.good.size(); ++length)
    EXPECT_FALSE(test::accepted(sealed(v.good.substr(0, length)), read)) << length;
  EXPECT_FAULT(read(Exact(v.good + "x").span()), Fault::file, "the file is damaged");
}

TEST_P(StateDamage, RefusesEveryFlippedBit) {
  for (size_t i = 0; i < 8 * v.good.size(); ++i) {
    std::string bytes = v.good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(test::accepted(bytes, read)) << "byte " << i / 8 << ", bit " << i % 8;
  }
}

TEST_P(StateDamage, SurvivesEveryFlippedBitWithARightChecksum) {
  int read_well = 0;
  for (size_t i = 0; i < 8 * v.good.size() - 64; ++i) {
    std::string bytes = v.good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    read_well += test::accepted(sealed(bytes), read);
  }
  EXPECT_GT(read_well, 1000);  // most flips in numbers and texts
}

TEST_P(StateDamage, SurvivesRandomDamageWithARightChecksum) {
  const auto read_sealed = [](std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    read(Exact(sealed(text)).span());
  };
  test::expect_mutations_survived(v.good, 1, 20000, read_sealed);
}

TEST_P(StateDamage, RefusesAbsurdSizesBeforeTakingMemory) {
  for (const size_t at : v.sizes_at) {
    for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX, max_state_size + 1})
      EXPECT_FAULT(read(Exact(v.with(at, wrong)).span()), Fault::file, "expected sizes from 1 to");
    EXPECT_FAULT(read(Exact(v.with(at, max_state_size)).span()), Fault::file,
                 "the file is damaged");
  }
  std::string bytes = v.good;
  for (const size_t at : v.sizes_at) std::memcpy(bytes.data() + at, &max_state_size, 8);
  if (v.number == 2) std::memcpy(bytes.data() + rows_at, &max_cache_rows, 8);
  EXPECT_FAULT(read(Exact(sealed(bytes)).span()), Fault::file, "does not fit in 64 bits");
  for (const uint32_t wrong : {uint32_t(v.numbers_at) - 15, 1u << 24, 0xffffffffu})
    EXPECT_FALSE(test::accepted(v.with(length_at, wrong), read));
  EXPECT_FAULT(read(Exact(v.with(length_at, ~0u)).span()), Fault::file,
               "expected a header of at most");
  for (const size_t at : {v.name_at(), v.creator_at(), v.sampler_at()})
    for (const uint32_t wrong : {100u, 4097u, 0xffffffffu})
      EXPECT_FALSE(test::accepted(v.with(at, wrong), read));
}

TEST_P(StateDamage, RefusesFieldsThatMakeNoSense) {
  const auto refuses = [](const std::string& bytes, std::string_view part) {
    EXPECT_FAULT(read(Exact(bytes).span()), Fault::file, part);
  };
  refuses("", "expected a state file");
  refuses(v.with(0, 'x'), "expected a state file, found another kind");
  refuses(v.with(version_at, 3),
          "expected version 1 or 2 of a state file, found 3; a later version");
  refuses(v.with(version_at, 0), "expected version 1 or 2 of a state file, found 0");
  EXPECT_FALSE(test::accepted(v.with(version_at, 3 - v.number), read)) << "as the other version";
  refuses(v.with(position_at, int64_t{-1}), "position: expected 0 or more, found -1");
  refuses(v.with(v.kind_at(), 3), "expected a kind of 0, 1 or 2, found 3");
  refuses(v.with(v.kind_at(), 0), "found none with alpha 3, chunk 16");
  refuses(v.with(v.alpha_at(), std::numeric_limits<double>::quiet_NaN()), "alpha");
  refuses(v.with(v.alpha_at(), -1.5), "alpha -1.5");
  refuses(v.with(v.chunk_at(), int64_t{-16}), "chunk -16");
  refuses(v.with(v.flags_at(), 7), "flags: expected 0 to 3, found 7");
  refuses(v.with(v.flags_at(), 2), "last token: expected 0 or more, and 0 for none, found 42");
  refuses(v.with(v.flags_at(), 1), "sampler state: expected bytes if flag 2 is set, found 3");
  refuses(v.with(v.last_token_at(), -1), "last token");
  refuses(v.with(v.sampler_at(), 0), "sampler state");
  refuses(v.with(v.numbers_at - 1, 'x'), "expected zeros up to the next multiple of 64");
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_FAULT(read(Exact(v.with(v.numbers_at + 4 * v.broken_number, infinity)).span()),
               Fault::overflow, "file: state overflowed at position 1001 in " + v.place);
}

INSTANTIATE_TEST_SUITE_P(Versions, StateDamage, testing::Values(1, 2));

struct StatePartDamage : StateDamage {};
INSTANTIATE_TEST_SUITE_P(Versions, StatePartDamage, testing::Values(2));

TEST_P(StatePartDamage, RefusesPartsThatMakeNoSense) {
  const auto refuses = [](const std::string& bytes, std::string_view part) {
    EXPECT_FAULT(read(Exact(bytes).span()), Fault::file, part);
  };
  for (const uint32_t wrong : {0u, uint32_t(max_parts) + 1, 0xffffffffu})
    refuses(v.with(count_at, wrong), cat("expected 1 to ", max_parts, " parts, found ", wrong));
  for (const uint32_t wrong : {1u, 4u, 6u, uint32_t(max_parts)})
    EXPECT_FALSE(test::accepted(v.with(count_at, wrong), read)) << wrong;
  for (const uint32_t wrong : {4u, 0xffffffffu})
    refuses(v.with(part_at, wrong),
            cat("'keys' of layer 0: expected a kind from 0 to 3, found ", wrong));
  // A cache of three rows is no shift; what is no memory may have any dimensions.
  refuses(v.with(part_at, 1), "'keys' of layer 0: expected 1 row, or up to");
  refuses(v.with(part_at, 0), "'keys' of layer 0: expected 3 dimensions, found 2");
  for (const uint32_t wrong : {65u, 0xffffffffu})
    refuses(v.with(part_name_size_at, wrong), "expected a name of 1 to 64 bytes");
  refuses(v.with(part_name_size_at, 0), "expected a name of 1 to 64 bytes");
  for (const uint32_t wrong : {7u, 0xffffffffu})
    refuses(v.with(rank_at, wrong), "and at most 6 dimensions, found 4 and ");
  for (const char wrong : {'\n', '\0', '\x1b', '\x7f', '\xf0'})
    refuses(v.with(part_name_at + 2, wrong), "name of a part: expected printable ASCII");
  for (const int64_t wrong : {int64_t{-1}, max_state_size, INT64_MAX})
    refuses(v.with(layer_at, wrong), cat("'keys' of layer ", wrong, ": expected a layer from 0 to"));
  for (const int64_t wrong : {int64_t{-1}, max_cache_rows + 1, INT64_MAX})
    refuses(v.with(rows_at, wrong), cat("of a cache, found ", wrong));
  for (const int64_t wrong : {int64_t{0}, int64_t{2}, int64_t{4}, max_cache_rows})
    refuses(v.with(rows_at, wrong), "the file is damaged");
  refuses(v.with(memory_at + 44, int64_t{2}), "'memory' of layer 1: expected 1 row");
}

}  // namespace
}  // namespace deltasane
