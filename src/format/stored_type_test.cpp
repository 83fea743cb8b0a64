#include "format/stored_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/printable.h"
#include "format/dequantize.h"
#include "support/fixture_bytes.h"
#include "format/quantize/quantize.h"
#include "support/errors.h"

namespace deltasane {
namespace {

std::vector<float> floats_of(StoredType type, const std::string& bytes, size_t count) {
  std::vector<float> out(count);
  const test::Exact exact(bytes);
  dequantize_to_float(type, exact.span(), out);
  return out;
}

std::string bytes_of(StoredType type, const std::vector<float>& values) {
  std::string out(stored_bytes(type, values.size(), "values"), '?');
  quantize_from_float(type, values, std::as_writable_bytes(std::span(out)), "values");
  return out;
}

TEST(StoredType, HasOneNamePerType) {
  for (int i = 0; i < int(StoredType::foreign); ++i)
    EXPECT_EQ(stored_type_named(name_of(StoredType(i))), StoredType(i));
  EXPECT_EQ(stored_type_named("Q8"), StoredType::q8_0);
  EXPECT_EQ(stored_type_named("Float16"), StoredType::f16);
  EXPECT_FAULT(stored_type_named("q4_x"), Fault::usage, "found 'q4_x'");
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    EXPECT_EQ(dtype_of(stored_type_of(type)), type);
    EXPECT_EQ(layout_of(stored_type_of(type)).bytes, element_size(type));
  }
  EXPECT_FALSE(dtype_of(StoredType::q8_0));
}

TEST(StoredType, CountsBytesOrFails) {
  EXPECT_EQ(stored_bytes(StoredType::q5_1, 64, "w"), 48u);
  EXPECT_FAULT(stored_bytes(StoredType::q8_0, 33, "w"), Fault::file, "w: expected a multiple");
  EXPECT_FAULT(stored_bytes(StoredType::f64, uint64_t{1} << 62, "w"), Fault::file, "64 bits");
}

TEST(Dequantize, ReadsPlainNumbers) {
  using test::Bytes;
  EXPECT_EQ(floats_of(StoredType::f64, Bytes().number(0.5).number(-3.0).string(), 2),
            (std::vector<float>{0.5f, -3}));
  EXPECT_EQ(floats_of(StoredType::i64, Bytes().number(int64_t{-7}).string(), 1)[0], -7);
  EXPECT_EQ(floats_of(StoredType::i16, Bytes().number(int16_t{-7}).string(), 1)[0], -7);
  EXPECT_EQ(floats_of(StoredType::i8, "\xff", 1)[0], -1);
  EXPECT_EQ(floats_of(StoredType::u8, "\xff", 1)[0], 255);
  EXPECT_EQ(floats_of(StoredType::u16, "\xff\xff", 1)[0], 65535);
  EXPECT_EQ(floats_of(StoredType::boolean, std::string("\x00\x02", 2), 2),
            (std::vector<float>{0, 1}));
  EXPECT_EQ(floats_of(StoredType::f16, Bytes().number(uint16_t{0xc000}).string(), 1)[0], -2);
  EXPECT_EQ(floats_of(StoredType::bf16, Bytes().number(uint16_t{0x3fc0}).string(), 1)[0], 1.5f);
}

// One block of each kind, with element j = j written by hand in its layout.
TEST(Dequantize, ReadsBlocks) {
  const uint16_t half = f16(0.5f).bits, minus = f16(-1.0f).bits;
  std::string nibbles(16, '\0');  // element j has q = j mod 16
  for (int j = 0; j < 16; ++j) nibbles[size_t(j)] = char(j | j << 4);
  const uint32_t upper = 0xffff0000u;  // elements 16 .. 31 have the fifth bit
  const std::string q4_0 = test::Bytes().number(half).text(nibbles).string();
  const std::string q4_1 = test::Bytes().number(half).number(minus).text(nibbles).string();
  const std::string q5_0 = test::Bytes().number(half).number(upper).text(nibbles).string();
  const std::string q5_1 =
      test::Bytes().number(half).number(minus).number(upper).text(nibbles).string();
  test::Bytes q8_0;
  q8_0.number(half);
  for (int j = 0; j < 32; ++j) q8_0.number(int8_t(4 * j - 64));
  for (int j = 0; j < 32; ++j) {
    const float low = float(j % 16), all = float(j);
    EXPECT_EQ(floats_of(StoredType::q4_0, q4_0, 32)[size_t(j)], 0.5f * (low - 8));
    EXPECT_EQ(floats_of(StoredType::q4_1, q4_1, 32)[size_t(j)], 0.5f * low - 1);
    EXPECT_EQ(floats_of(StoredType::q5_0, q5_0, 32)[size_t(j)], 0.5f * (all - 16));
    EXPECT_EQ(floats_of(StoredType::q5_1, q5_1, 32)[size_t(j)], 0.5f * all - 1);
    EXPECT_EQ(floats_of(StoredType::q8_0, q8_0.string(), 32)[size_t(j)], 0.5f * (4 * all - 64));
  }
}

TEST(Quantize, RoundsHalvesAwayFromZeroInQ8) {
  std::vector<float> values(32, 0.0f);
  values[0] = 127;
  values[1] = 2.5f;
  values[2] = -2.5f;
  values[3] = -0.5f;
  const std::string bytes = bytes_of(StoredType::q8_0, values);
  EXPECT_EQ(bytes.substr(0, 2), test::Bytes().number(f16(1.0f).bits).string());
  EXPECT_EQ(int(bytes[2]), 127);
  EXPECT_EQ(int(bytes[3]), 3);
  EXPECT_EQ(int(int8_t(bytes[4])), -3);
  EXPECT_EQ(int(int8_t(bytes[5])), -1);
}

TEST(Quantize, GivesTheLargestMagnitudeTheMostNegativeCodeInQ4) {
  std::vector<float> values(32, 0.0f);
  values[5] = 8;
  values[6] = 1;
  values[21] = -7;
  const std::string bytes = bytes_of(StoredType::q4_0, values);
  EXPECT_EQ(bytes.substr(0, 2), test::Bytes().number(f16(-1.0f).bits).string());
  EXPECT_EQ(uint8_t(bytes[2 + 5]), 0x0 | 0xf << 4);
  EXPECT_EQ(uint8_t(bytes[2 + 6]), 0x7 | 0x8 << 4);
}

TEST(Quantize, RoundTripsWithinHalfAStep) {
  Random random(1);
  std::vector<float> values(32 * 50);
  for (float& value : values) value = float(random.normal());
  for (const auto& [type, steps] :
       {std::pair{StoredType::q8_0, 127.0f}, {StoredType::q4_0, 8.0f}}) {
    const auto back = floats_of(type, bytes_of(type, values), values.size());
    for (size_t block = 0; block < values.size(); block += 32) {
      float largest = 0;
      for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
      // q4_0 has no code for the far end of the other sign: up to one step there.
      const float allowed =
          largest / steps * (type == StoredType::q4_0 ? 1.001f : 0.5f) + largest * 0.001f;
      for (size_t i = block; i < block + 32; ++i)
        EXPECT_LE(std::fabs(back[i] - values[i]), allowed) << name_of(type) << " " << i;
    }
  }
}

TEST(Quantize, KeepsZerosAndTheTiniestNumbersDefined) {
  EXPECT_EQ(floats_of(StoredType::q8_0, bytes_of(StoredType::q8_0, std::vector<float>(32)), 32),
            std::vector<float>(32));
  const std::vector<float> tiny(32, std::numeric_limits<float>::denorm_min());
  for (const StoredType type : {StoredType::q8_0, StoredType::q4_0})
    for (const float x : floats_of(type, bytes_of(type, tiny), 32)) EXPECT_EQ(x, 0.0f);
}

TEST(Quantize, RejectsUnrepresentableValues) {
  std::vector<float> values(32, 1.0f);
  values[7] = 70000;
  EXPECT_FAULT(bytes_of(StoredType::f16, values), Fault::overflow, "values: element 7");
  EXPECT_EQ(bytes_of(StoredType::bf16, values).size(), 64u);
  values[7] = std::numeric_limits<float>::infinity();
  EXPECT_FAULT(bytes_of(StoredType::q8_0, values), Fault::overflow, "element 7");
  EXPECT_FAULT(bytes_of(StoredType::q4_0, values), Fault::overflow, "element 7");
  EXPECT_EQ(bytes_of(StoredType::f16, values).size(), 64u);
  EXPECT_FAULT(bytes_of(StoredType::q5_0, values), Fault::argument, "found q5_0");
}

TEST(Printable, KeepsAMessageOnOneLine) {
  EXPECT_EQ(printable("a\nb\x7f"), "'a\\x0ab\\x7f'");
  EXPECT_LT(printable(std::string(5000, 'x')).size(), 110u);
}

}  // namespace
}  // namespace deltasane
