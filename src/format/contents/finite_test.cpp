#include "format/contents/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "format/contents/contents.h"
#include "format/quantize/quantize.h"
#include "support/errors.h"

namespace deltasane {
namespace {

// A file of one tensor in memory.
struct OneTensor {
  std::vector<std::byte> bytes;
  TensorFile file{"test", "file"};

  OneTensor(StoredType type, const Shape& shape, std::vector<std::byte> stored)
      : bytes(std::move(stored)) {
    file.add({"w", type, shape, contiguous_strides(shape), bytes, 0, ""});
  }
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Finite, FindsEachPlaceInEachType) {
  constexpr int64_t count = 1000;  // whole groups, and a rest
  for (const int64_t at : {int64_t{0}, int64_t{255}, int64_t{256}, int64_t{998}})
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      const auto check = [&](StoredType type, std::vector<std::byte> stored) {
        const OneTensor one(type, {10, 100}, std::move(stored));
        const auto found = find_non_finite(one.file);
        ASSERT_TRUE(found) << name_of(type) << " " << at;
        EXPECT_EQ(found->tensor, "w");
        EXPECT_EQ(found->index, at);
        EXPECT_EQ(std::isnan(found->value), std::isnan(bad));
        EXPECT_EQ(found->count, 2);
        EXPECT_EQ(found->tensors, 1);
      };
      std::vector<float> floats(count, 65504.0f);
      floats[size_t(at)] = floats.back() = bad;
      std::vector<f16> halves;
      std::vector<bf16> brains;
      std::vector<double> doubles;
      for (const float value : floats) {
        halves.push_back(f16(value));
        brains.push_back(bf16(value));
        const double far = std::copysign(1e300, double(value));
        doubles.push_back(std::isinf(value) ? far : double(value));
      }
      check(StoredType::f32, bytes_of(floats));
      check(StoredType::f16, bytes_of(halves));
      check(StoredType::bf16, bytes_of(brains));
      check(StoredType::f64, bytes_of(doubles));
    }
}

TEST(Finite, AcceptsTheLargestAndTheSmallest) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> floats{most, -most, 0, -0.0f, std::numeric_limits<float>::denorm_min()};
  EXPECT_FALSE(find_non_finite(OneTensor(StoredType::f32, {5}, bytes_of(floats)).file));
  const std::vector<int32_t> integers{0x7f800000, -1};
  EXPECT_FALSE(find_non_finite(OneTensor(StoredType::i32, {2}, bytes_of(integers)).file));
}

TEST(Finite, LooksAtTheScalesOfBlocks) {
  using enum StoredType;
  const std::pair<StoredType, std::vector<size_t>> scales[] = {
      {q4_0, {0}},    {q4_1, {0, 2}}, {q5_0, {0}}, {q5_1, {0, 2}}, {q8_0, {0}},  {q2_k, {80, 82}},
      {q3_k, {108}},  {q4_k, {0, 2}}, {q5_k, {0, 2}}, {q6_k, {208}}, {iq4_nl, {0}}, {iq4_xs, {0}}};
  for (const auto& [type, places] : scales) {
    const StoredLayout layout = layout_of(type);
    const Shape shape{3 * layout.block};
    std::vector<std::byte> stored(size_t(3 * layout.bytes), std::byte{1});
    EXPECT_FALSE(find_non_finite(OneTensor(type, shape, stored).file)) << layout.name;
    for (const size_t scale : places) {
      auto damaged = stored;
      damaged[size_t(layout.bytes) + scale + 1] = std::byte{0x7c};  // an infinity or NaN
      const auto found = find_non_finite(OneTensor(type, shape, damaged).file);
      ASSERT_TRUE(found) << layout.name << " " << scale;
      EXPECT_GE(found->index, layout.block);
      EXPECT_LT(found->index, 2 * layout.block);
    }
  }
}

TEST(Finite, SeesOnlyWhatATensorWithStridesHas) {
  const std::vector<float> floats{0, infinity, 2, 3};
  TensorFile file("test", "file");
  const auto bytes = std::as_bytes(std::span(floats));
  file.add({"even", StoredType::f32, {2}, {2}, bytes.first(12), 0, ""});
  EXPECT_FALSE(find_non_finite(file));
  file.add({"odd", StoredType::f32, {2}, {2}, bytes.subspan(4), 0, ""});
  ASSERT_TRUE(find_non_finite(file));
  EXPECT_EQ(find_non_finite(file)->tensor, "odd");
  EXPECT_FAULT(check_contents(file, Checksums::verify, NonFiniteWeights::refuse), Fault::overflow,
               "tensor 'odd': inf at element 0");
}

TEST(Finite, CountsInALargeFile) {
  std::vector<float> floats(size_t{3} << 20);  // read on several threads
  floats[1] = floats[size_t{2} << 20] = infinity;
  const OneTensor one(StoredType::f32, {3, 1 << 20}, bytes_of(floats));
  EXPECT_EQ(find_non_finite(one.file)->count, 2);
}

}  // namespace
}  // namespace deltasane
