#include "format/contents/contents.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/crc32/crc32.h"
#include "base/random.h"
#include "support/errors.h"

namespace deltasane {
namespace {

using ByteSpan = std::span<const std::byte>;

// A file with bytes before, between and after its tensors, of which some share their bytes.
struct Fixture {
  std::vector<float> floats;
  TensorFile file{"test", "file"};

  explicit Fixture(size_t count) : floats(count) {
    Random random(1);
    for (float& number : floats) number = float(random.uniform());
    add_tensor("first", 3, count / 2);
    add_tensor("shared", 1, count / 2);
    add_tensor("strided", 0, count / 2, 2);
    add_tensor("last", count - count / 4, count / 8);
    const size_t half = (count / 2 + 8) * sizeof(float);
    add_checksum("begin", bytes().first(half));
    add_checksum("end", bytes().subspan(half));
    add_checksum("empty", {});
  }

  ByteSpan bytes() const { return std::as_bytes(std::span(floats)); }
  void add_tensor(const char* name, size_t at, size_t count, int64_t stride = 1) {
    const auto part = std::as_bytes(std::span(floats).subspan(at, count));
    const auto elements = int64_t(count) / stride;
    file.add({name, StoredType::f32, Shape{elements}, Shape{stride}, part, at, ""});
  }
  void add_checksum(const char* name, ByteSpan part) {
    file.add(ChecksummedBytes{name, part, uint64_t(part.data() - bytes().data()), crc32(part)});
  }
  void check() const { check_contents(file, Checksums::verify, NonFiniteWeights::refuse); }
};

TEST(Contents, AreReadInOnePassAsOneByOne) {
  for (const size_t count : {size_t{64}, size_t{5} << 20}) {  // on one thread, on several
    const Fixture fixture(count);
    const ContentsFound both = read_contents(fixture.file, {true, true});
    for (size_t i = 0; i < both.checksums.size(); ++i)
      EXPECT_EQ(both.checksums[i], fixture.file.checksummed()[i].checksum) << i;
    EXPECT_EQ(both.checksums, read_contents(fixture.file, {true, false}).checksums);
    EXPECT_EQ(both.non_finite, std::vector<char>(4));
    fixture.check();
  }
}

TEST(Contents, EveryChangedFloatIsFound) {
  Fixture fixture(64);
  for (float& number : fixture.floats) {
    const float before = number;
    number = before + 1;
    EXPECT_FAULT(fixture.check(), Fault::file, "the file is damaged");
    check_contents(fixture.file, Checksums::skip, NonFiniteWeights::refuse);
    number = before;
  }
  fixture.check();
}

TEST(Contents, NumbersThatAreNotFiniteAreFoundInEachTensor) {
  Fixture fixture(64);
  const auto bad = [&](size_t at) {
    const float before = std::exchange(fixture.floats[at], std::numeric_limits<float>::infinity());
    const ContentsFound found = read_contents(fixture.file, {true, true});
    EXPECT_EQ(found.non_finite, read_contents(fixture.file, {false, true}).non_finite) << at;
    fixture.floats[at] = before;
    return found.non_finite;
  };
  EXPECT_EQ(bad(0), (std::vector<char>{0, 0, 1, 0}));
  EXPECT_EQ(bad(1), (std::vector<char>{0, 1, 0, 0}));
  EXPECT_EQ(bad(4), (std::vector<char>{1, 1, 1, 0}));
  EXPECT_EQ(bad(34), (std::vector<char>{1, 0, 0, 0}));
  EXPECT_EQ(bad(48), (std::vector<char>{0, 0, 0, 1}));
  EXPECT_EQ(bad(63), (std::vector<char>{0, 0, 0, 0}));
}

TEST(Contents, DamageIsNamedBeforeNumbersThatAreNotFinite) {
  Fixture fixture(64);
  fixture.floats[4] = std::numeric_limits<float>::infinity();
  EXPECT_FAULT(fixture.check(), Fault::file, "at byte 0: entry 'begin': expected the checksum");
  EXPECT_FAULT(check_contents(fixture.file, Checksums::skip, NonFiniteWeights::refuse),
               Fault::overflow, "tensor 'first': inf at element 1");
  check_contents(fixture.file, Checksums::skip, NonFiniteWeights::allow);
}

}  // namespace
}  // namespace deltasane
