// Quantized matrices of a file as weights to compute with: the same numbers.
#include "model/cpu/load_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/half.h"
#include "base/random.h"
#include "format/dequantize.h"
#include "format/quantize/quantize.h"

namespace deltasane {
namespace {

using kernel::Weights;
using kernel::WeightType;

constexpr std::pair<StoredType, WeightType> kept[]{{StoredType::q8_0, WeightType::q8},
                                                   {StoredType::q6_k, WeightType::q6_k},
                                                   {StoredType::q5_k, WeightType::q5_k},
                                                   {StoredType::q4_k, WeightType::q4_k},
                                                   {StoredType::q4_0, WeightType::q4}};

// Any bits, with scales that are finite.
std::vector<std::byte> random_blocks(StoredType type, int64_t elements) {
  std::vector<std::byte> bytes(stored_bytes(type, uint64_t(elements), "blocks"));
  Random random(uint64_t(type) + 1);
  for (std::byte& byte : bytes) byte = std::byte(uint8_t(random.word64()));
  const auto block = size_t(layout_of(type).bytes);
  for (size_t at = 0; at < bytes.size(); at += block)
    for (const size_t place : {type == StoredType::q6_k ? size_t{208} : size_t{0}, size_t{2}}) {
      if (place == 2 && type != StoredType::q4_k && type != StoredType::q5_k) continue;
      const f16 scale(float(random.normal()));
      std::memcpy(&bytes[at + place], &scale.bits, sizeof scale.bits);
    }
  return bytes;
}

StoredMatrix matrix_of(StoredType type, const std::vector<std::byte>& bytes, int64_t out,
                       int64_t in) {
  StoredTensor stored;
  stored.type = type, stored.shape = {out, in}, stored.stride = {in, 1}, stored.bytes = bytes;
  return {stored, type, {out, in}, [=, &bytes] {
            Tensor<float> values({out, in});
            dequantize_to_float(type, bytes, values.span());
            return values;
          }};
}

TEST(LoadWeights, QuantizedMatricesKeepTheirNumbers) {
  constexpr int64_t out = 19, in = 512;  // no whole group of 8 rows
  for (const auto& [stored, type] : kept) {
    const std::vector<std::byte> bytes = random_blocks(stored, out * in);
    const StoredMatrix matrix = matrix_of(stored, bytes, out, in);
    const Weights weights = load_weights(matrix, std::nullopt, nullptr);
    EXPECT_EQ(weights.type(), type);
    const Tensor<float> expected = matrix.read();
    for (int64_t row = 0; row < out; ++row)
      for (int64_t column = 0; column < in; ++column)
        ASSERT_EQ(weights.at(row, column), expected[row * in + column])
            << name_of(stored) << " " << row << " " << column;
  }
}

TEST(LoadWeights, OtherMatricesBecomeTheWantedType) {
  constexpr int64_t out = 5, in = 256;
  Random random(3);
  std::vector<float> values(out * in);
  for (float& value : values) value = float(random.normal());
  std::vector<std::byte> floats(values.size() * sizeof(float));
  std::memcpy(floats.data(), values.data(), floats.size());
  for (const auto& [stored, type] : kept) {
    if (type == WeightType::q8) continue;  // it has a rule of its own: kernel/matmul/weights.h
    const Weights weights =
        load_weights(matrix_of(StoredType::f32, floats, out, in), type, nullptr);
    ASSERT_EQ(weights.type(), type);
    std::vector<std::byte> bytes(stored_bytes(stored, values.size(), "values"));
    quantize_from_float(stored, values, bytes, "values");
    std::vector<float> expected(values.size());
    dequantize_to_float(stored, bytes, expected);
    for (int64_t i = 0; i < out * in; ++i)
      ASSERT_EQ(weights.at(i / in, i % in), expected[size_t(i)]) << name_of(stored);
    // Rows that are no whole blocks become 8 bits.
    const Weights narrow = load_weights(matrix_of(StoredType::f32, floats, 32, 40), type, nullptr);
    EXPECT_EQ(narrow.type(), WeightType::q8);
  }
}

}  // namespace
}  // namespace deltasane
