#include "format/contents/non_finite_scan.h"

#include <cmath>
#include <cstring>
#include <optional>

namespace deltasane {
namespace {

// Whether one of the numbers has an exponent of ones only.
template <class Bits>
bool any_full_exponent(const std::byte* from, int64_t count, Bits exponent) {
  constexpr int64_t unrolled = 256;
  const auto full = [&](int64_t i) {
    Bits bits;
    std::memcpy(&bits, from + i * int64_t(sizeof bits), sizeof bits);
    return Bits((bits & exponent) == exponent);
  };
  int64_t i = 0;
  for (; i + unrolled <= count; i += unrolled) {
    Bits any = 0;
    for (int64_t j = 0; j < unrolled; ++j) any |= full(i + j);
    if (any) return true;
  }
  for (; i < count; ++i)
    if (full(i)) return true;
  return false;
}

// Where the f16 scales lie in a block.
struct Scales {
  int64_t first, count;
};

bool any_full_scale(const std::byte* from, int64_t blocks, int64_t bytes, Scales scales) {
  for (int64_t i = 0; i < blocks; ++i)
    if (any_full_exponent<uint16_t>(from + i * bytes + scales.first, scales.count, 0x7c00))
      return true;
  return false;
}

// None: the type has no blocks.
std::optional<Scales> scales_of(StoredType type) {
  switch (type) {
    case StoredType::q4_0:
    case StoredType::q5_0:
    case StoredType::q8_0:
    case StoredType::iq4_nl:
    case StoredType::iq4_xs:
      return Scales{0, 1};
    case StoredType::q4_1:
    case StoredType::q5_1:
    case StoredType::q4_k:
    case StoredType::q5_k:
      return Scales{0, 2};
    case StoredType::q2_k:
      return Scales{80, 2};
    case StoredType::q3_k:
      return Scales{108, 1};
    case StoredType::q6_k:
      return Scales{208, 1};
    default:
      return std::nullopt;
  }
}

bool any_beyond_float(const std::byte* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, from + i * int64_t(sizeof value), sizeof value);
    if (!std::isfinite(float(value))) return true;
  }
  return false;
}

}  // namespace

bool any_non_finite(StoredType type, const std::byte* from, int64_t count) {
  if (const auto scales = scales_of(type)) {
    const StoredLayout layout = layout_of(type);
    return any_full_scale(from, count / layout.block, layout.bytes, *scales);
  }
  switch (type) {
    case StoredType::f64:
      return any_beyond_float(from, count);
    case StoredType::f32:
      return any_full_exponent<uint32_t>(from, count, 0x7f800000);
    case StoredType::f16:
      return any_full_exponent<uint16_t>(from, count, 0x7c00);
    case StoredType::bf16:
      return any_full_exponent<uint16_t>(from, count, 0x7f80);
    default:
      return false;
  }
}

}  // namespace deltasane
