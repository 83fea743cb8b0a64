// Floats to q4_k, q5_k and q6_k and back.
#include "format/k_quants/quantize_k_quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "format/dequantize.h"
#include "format/quantize/quantize.h"
#include "support/errors.h"

namespace deltasane {
namespace {

constexpr StoredType types[]{StoredType::q4_k, StoredType::q5_k, StoredType::q6_k};

std::vector<float> round_trip(StoredType type, const std::vector<float>& values,
                              const std::vector<float>& importance = {}) {
  std::vector<std::byte> bytes(stored_bytes(type, values.size(), "values"), std::byte{255});
  quantize_from_float(type, values, bytes, "values", importance);
  std::vector<float> back(values.size(), NAN);
  dequantize_to_float(type, bytes, back);
  return back;
}

std::vector<float> normal_values(uint64_t seed, size_t count) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = float(random.normal());
  return values;
}

double squares(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double(a[i]) - double(b[i]), 2);
  return sum;
}

// What is obvious: the range of each sub-block in equal steps, with scales that need no rounding.
std::vector<float> equal_steps(const std::vector<float>& values, size_t size, int levels) {
  std::vector<float> out(values);
  for (size_t at = 0; at < values.size(); at += size) {
    const auto [least, most] = std::minmax_element(values.begin() + ptrdiff_t(at),
                                                   values.begin() + ptrdiff_t(at + size));
    const float step = (*most - *least) / float(levels);
    for (size_t i = at; i < at + size; ++i)
      out[i] = *least + step * std::round((values[i] - *least) / step);
  }
  return out;
}

TEST(QuantizeKQuant, IsNoWorseThanEqualSteps) {
  const std::vector<float> values = normal_values(1, 256 * 40);
  EXPECT_LT(squares(round_trip(StoredType::q4_k, values), values),
            squares(equal_steps(values, 32, 15), values));
  EXPECT_LT(squares(round_trip(StoredType::q5_k, values), values),
            squares(equal_steps(values, 32, 31), values));
  // Symmetric steps reach the far end of one sign only, and its scale has 8 bits.
  EXPECT_LT(squares(round_trip(StoredType::q6_k, values), values),
            squares(equal_steps(values, 16, 31), values));
}

// An element is off by half a step, and by what rounding the scale and the minimum takes: with 6 bits
// at most a 126th of the super-block's largest, times the 15 or 31 of the largest q.
TEST(QuantizeKQuant, KeepsEveryElementNear) {
  const std::vector<float> values = normal_values(2, 256 * 40);
  const double steps[]{15, 31, 32};
  for (size_t t = 0; t < std::size(types); ++t) {
    const std::vector<float> back = round_trip(types[t], values);
    for (size_t at = 0; at < values.size(); at += 256) {
      double range = 0;
      for (size_t i = at; i < at + 256; ++i) range = std::max(range, std::abs(double(values[i])));
      range *= 2;
      for (size_t i = at; i < at + 256; ++i)
        EXPECT_LE(std::abs(double(back[i]) - double(values[i])),
                  range / steps[t] + 2 * range / 126)
            << name_of(types[t]) << " " << i;
    }
  }
}

TEST(QuantizeKQuant, FollowsWhatIsImportant) {
  const std::vector<float> values = normal_values(3, 256 * 20);
  std::vector<float> importance(values.size(), 1e-3f), kept, kept_with, kept_without;
  for (size_t i = 0; i < values.size(); i += 4) importance[i] = 10;
  for (const StoredType type : types) {
    const std::vector<float> with = round_trip(type, values, importance);
    const std::vector<float> without = round_trip(type, values);
    kept.clear(), kept_with.clear(), kept_without.clear();
    for (size_t i = 0; i < values.size(); i += 4)
      kept.push_back(values[i]), kept_with.push_back(with[i]), kept_without.push_back(without[i]);
    EXPECT_LT(squares(kept_with, kept), 0.9 * squares(kept_without, kept)) << name_of(type);
    EXPECT_GT(squares(with, values), squares(without, values)) << name_of(type);
  }
}

TEST(QuantizeKQuant, KeepsConstantsAndTheTiniestNumbersDefined) {
  for (const StoredType type : types) {
    EXPECT_EQ(round_trip(type, std::vector<float>(256)), std::vector<float>(256));
    for (const float constant : {1.0f, -3.0f, 0.1f, 2e6f}) {
      for (const float x : round_trip(type, std::vector<float>(256, constant)))
        EXPECT_NEAR(x, constant, std::abs(constant) / 100) << name_of(type);
    }
    for (const float tiny : {std::numeric_limits<float>::denorm_min(), 1e-30f, -1e-9f})
      for (const float x : round_trip(type, std::vector<float>(256, tiny)))
        EXPECT_NEAR(x, 0.0f, 1e-6f) << name_of(type);
    // one sub-block of large numbers beside tiny ones
    std::vector<float> mixed(256, 1e-9f);
    for (size_t i = 0; i < 32; ++i) mixed[i] = i % 2 ? -1e5f : 2e6f;
    for (const float x : round_trip(type, mixed)) EXPECT_TRUE(std::isfinite(x)) << name_of(type);
  }
}

TEST(QuantizeKQuant, RejectsWhatItCannotHold) {
  for (const StoredType type : types)
    for (const float bad : {NAN, INFINITY, -1e7f}) {
      std::vector<float> values(512, 1.0f);
      values[300] = bad;
      EXPECT_FAULT(round_trip(type, values), Fault::overflow, "values: element 300");
    }
}

}  // namespace
}  // namespace deltasane
