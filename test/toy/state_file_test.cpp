// State files of parts that differ: what is saved is what is read, and damage is found.
#include "infer/state_file.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/hash/xxh3.h"
#include "infer/state_layout.h"
#include "infer/state_scan.h"
#include "support/errors.h"
#include "support/fixture_bytes.h"
#include "toy/fixture.h"

namespace deltasane::toy {
namespace {

using test::Exact;

void read(std::span<const std::byte> bytes) { read_state(bytes, "file"); }

// Makes the checksum right again.
std::string sealed(std::string bytes) {
  if (bytes.size() < 8) return bytes;
  Xxh3 hash;
  hash.add(std::as_bytes(std::span(bytes)).first(bytes.size() - 8));
  const uint64_t digest = hash.digest();
  std::memcpy(bytes.data() + bytes.size() - 8, &digest, 8);
  return bytes;
}

struct ToyStateFile : testing::Test {
  OpenToy toy;
  SequenceState state = toy.model->fresh_state();
  fs::path path = toy.scratch.path() / "state";

  ToyStateFile() { toy.logits_after(random_bytes(3, 1), state); }
  void save(const SequenceState& what) const {
    StateStamp stamp;
    stamp.last_token = 7;
    save_state_of(*toy.model, path, what, "toy", stamp);
  }
  std::string saved() const {
    save(state);
    return read_file(path);
  }
};

TEST_F(ToyStateFile, HoldsEveryPartAndIsLaidOutByTheLayout) {
  const std::string bytes = saved();
  test::Bytes parts;
  const auto part = [&](uint32_t kind, std::string_view name, int64_t layer,
                        const std::vector<int64_t>& shape, int64_t rows) {
    parts.number(kind).number(uint32_t(name.size())).number(uint32_t(shape.size())).number(layer);
    for (const int64_t size : shape) parts.number(size);
    parts.number(rows).text(name);
  };
  parts.number(uint32_t{5});
  part(2, "convolution inputs", 0, {2, 8}, 1);
  part(0, "memory 0", 0, {2, 6, 4}, 1);
  part(3, "keys and values", 1, {2, 5}, 3);
  part(0, "memory 0", 2, {3, 5, 3}, 1);
  part(0, "memory 1", 2, {1, 2, 7}, 1);
  EXPECT_EQ(bytes.substr(32, parts.size()), parts.string());
  uint32_t version, length;
  std::memcpy(&version, bytes.data() + 8, 4);
  std::memcpy(&length, bytes.data() + 12, 4);
  EXPECT_EQ(version, 2u);
  const size_t fixed = 16 + 48 + 45 + 14, cached = 3 * 2 * 5;
  EXPECT_EQ(bytes.size(), 16 + length + 4 * (fixed + cached) + 8);
  float first;
  std::memcpy(&first, bytes.data() + 16 + length + 4 * fixed, 4);
  EXPECT_EQ(first, state.cache(0)[0]);

  const SavedState found = load_state_of(*toy.model, path, "toy", OtherSane::refuse);
  EXPECT_TRUE(same_bits(found.state, state));
  EXPECT_EQ(found.stamp.last_token, 7);
}

TEST_F(ToyStateFile, ThatIsLoadedGoesOnAsIfNeverSaved) {
  save(state);
  SequenceState loaded = load_state_of(*toy.model, path, "toy", OtherSane::refuse).state;
  const std::vector<int32_t> more = random_bytes(40, 2);
  EXPECT_EQ(toy.logits_after(more, loaded), toy.logits_after(more, state));
  EXPECT_TRUE(same_bits(loaded, state));
}

TEST_F(ToyStateFile, OfAFreshStateHasCachesWithoutRows) {
  save(toy.model->fresh_state());
  EXPECT_TRUE(same_bits(load_state_of(*toy.model, path, "toy", OtherSane::refuse).state,
                        toy.model->fresh_state()));
}

TEST_F(ToyStateFile, OfAnotherLayoutIsRefusedByThePartThatDiffers) {
  save(state);
  auto other = std::make_shared<StateLayout>();
  for (const StatePart& part : state.layout().parts())
    other->add(part.name, part.kind, part.layer,
               part.name == "memory 1" ? Shape{1, 7, 2} : part.shape);
  const StateExpectation expected{toy.model->identity(), "toy", other, toy.model->sane()};
  EXPECT_FAULT(load_state(path, expected), Fault::file,
               "expected memory 1 of layer 2 (1, 7, 2), found memory 1 of layer 2 (1, 2, 7)");
}

TEST_F(ToyStateFile, RefusesEveryCutAndEveryFlippedBit) {
  const std::string good = saved();
  test::expect_every_cut_rejected(good, read);
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(test::accepted(sealed(good.substr(0, length)), read)) << length;
  for (size_t i = 0; i < 8 * good.size(); ++i) {
    std::string bytes = good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    EXPECT_FALSE(test::accepted(bytes, read)) << "byte " << i / 8 << ", bit " << i % 8;
  }
}

TEST_F(ToyStateFile, SurvivesDamageWithARightChecksum) {
  const std::string good = saved();
  int read_well = 0;
  for (size_t i = 0; i < 8 * good.size() - 64; ++i) {
    std::string bytes = good;
    bytes[i / 8] = char(bytes[i / 8] ^ (1 << i % 8));
    read_well += test::accepted(sealed(bytes), read);
  }
  EXPECT_GT(read_well, 1000);  // most flips in numbers
  test::expect_mutations_survived(good, 1, 20000, [](std::span<const std::byte> bytes) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    read(Exact(sealed(text)).span());
  });
}

TEST_F(ToyStateFile, RefusesPartsThatMakeNoSense) {
  const std::string good = saved();
  const size_t first_at = 36, name_at = first_at + 12 + 8 + 2 * 8 + 8;
  ASSERT_EQ(good.substr(name_at, 18), "convolution inputs");
  const size_t memory_at = name_at + 18, layer_at = memory_at + 12, shape_at = layer_at + 8;
  const size_t cache_at = shape_at + 3 * 8 + 8 + 8, rows_at = cache_at + 12 + 8 + 2 * 8;
  const size_t later_at = rows_at + 8 + 15, later_layer_at = later_at + 12;
  const auto with = [&](size_t at, auto value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &value, sizeof value);
    return sealed(bytes);
  };
  const auto refuses = [](const std::string& bytes, std::string_view part) {
    EXPECT_FAULT(read(Exact(bytes).span()), Fault::file, part);
  };
  refuses(with(32, uint32_t{0}), "expected 1 to 65536 parts, found 0");
  refuses(with(32, uint32_t{65537}), "expected 1 to 65536 parts, found 65537");
  refuses(with(memory_at, uint32_t{4}), "expected a kind from 0 to 3, found 4");
  refuses(with(layer_at, int64_t{-1}), "expected a layer from 0 to");
  for (const int64_t wrong : {int64_t{0}, int64_t{-1}, INT64_MAX, max_state_size + 1})
    refuses(with(shape_at, wrong), "expected sizes from 1 to");
  refuses(with(shape_at, max_state_size), "the file is damaged");
  refuses(with(rows_at, int64_t{-1}), "of a cache, found -1");
  refuses(with(rows_at, INT64_MAX), "of a cache, found 9223372036854775807");
  refuses(with(rows_at, max_cache_rows), "the file is damaged");
  refuses(with(rows_at, int64_t{4}), "the file is damaged");
  refuses(with(cache_at, uint32_t(StateKind::convolution)), "expected 1 row");
  refuses(with(name_at, '\n'), "expected printable ASCII");
  // Memories of layer 0 with one of another layer between them.
  std::string apart = good;
  const int64_t zero = 0, two = 2;
  std::memcpy(apart.data() + layer_at, &two, 8);
  std::memcpy(apart.data() + later_layer_at, &zero, 8);
  refuses(sealed(apart), "expected the memories of a layer one after another");
}

TEST_F(ToyStateFile, NamesWhatOverflowedInAnyPart) {
  const auto message = [&](size_t part, size_t at) {
    SequenceState broken = state.clone();
    broken.mutable_of(broken.layout().parts()[part])[at] = std::numeric_limits<float>::infinity();
    return overflow_message(*scan_state(broken).not_finite, 2);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  has(message(0, 8 + 3), "in layer 0, convolution inputs: row 1, channel 3 is infinity");
  has(message(1, 24 + 4 * 5 + 1), "in layer 0, head 1: row 5, column 1 is infinity");
  has(message(2, 2 * 10 + 7), "in layer 1, keys and values: row 2, channel 7 is infinity");
  has(message(4, 7 + 6), "in layer 2, head 3: row 1, column 6 is infinity");
  SequenceState broken = state.clone();
  broken.mutable_cache(0)[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FAULT(save(broken), Fault::overflow, "keys and values: row 0, channel 5");
}

}  // namespace
}  // namespace deltasane::toy
