#include "format/dequantize.h"

#include <cstring>

#include "format/k_quants/k_quants.h"

namespace deltasane {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void convert(const std::byte* from, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = float(load<T>(from + i * sizeof(T)));
}

float scale(const std::byte* from) { return float(f16::from_bits(load<uint16_t>(from))); }

// The 4-bit kinds: element j of a block is the low half of byte j, element j + 16 the high half.
// A fifth bit, where there is one, is bit j of a 32-bit word in front of the bytes.
template <bool fifth_bit, bool minimum>
void blocks_of_nibbles(const std::byte* from, std::span<float> out) {
  constexpr int middle = fifth_bit ? 16 : 8;
  for (size_t block = 0; block < out.size(); block += 32) {
    const float d = scale(from);
    from += 2;
    float m = 0;
    if constexpr (minimum) {
      m = scale(from);
      from += 2;
    }
    uint32_t high = 0;
    if constexpr (fifth_bit) {
      high = load<uint32_t>(from);
      from += 4;
    }
    const auto value = [&](uint32_t q, size_t j) {
      if constexpr (fifth_bit) q |= ((high >> j) & 1u) << 4;
      if constexpr (minimum) return d * float(q) + m;
      return d * float(int(q) - middle);
    };
    for (size_t j = 0; j < 16; ++j) {
      const uint32_t byte = uint32_t(from[j]);
      out[block + j] = value(byte & 15u, j);
      out[block + j + 16] = value(byte >> 4, j + 16);
    }
    from += 16;
  }
}

void blocks_of_bytes(const std::byte* from, std::span<float> out) {
  for (size_t block = 0; block < out.size(); block += 32, from += 34) {
    const float d = scale(from);
    for (size_t j = 0; j < 32; ++j) out[block + j] = d * float(int8_t(from[2 + j]));
  }
}

}  // namespace

void dequantize_to_float(StoredType type, std::span<const std::byte> bytes, std::span<float> out) {
  const StoredLayout layout = layout_of(type);
  require(type != StoredType::foreign && out.size() % size_t(layout.block) == 0 &&
              bytes.size() == out.size() / size_t(layout.block) * size_t(layout.bytes),
          "dequantize_to_float gets the bytes of its elements");
  if (out.empty()) return;
  const std::byte* const from = bytes.data();
  switch (type) {
    case StoredType::f64:
      return convert<double>(from, out);
    case StoredType::f32:
      std::memcpy(out.data(), from, bytes.size());
      return;
    case StoredType::f16:
      return convert<f16>(from, out);
    case StoredType::bf16:
      return convert<bf16>(from, out);
    case StoredType::i64:
      return convert<int64_t>(from, out);
    case StoredType::i32:
      return convert<int32_t>(from, out);
    case StoredType::i16:
      return convert<int16_t>(from, out);
    case StoredType::i8:
      return convert<int8_t>(from, out);
    case StoredType::u64:
      return convert<uint64_t>(from, out);
    case StoredType::u32:
      return convert<uint32_t>(from, out);
    case StoredType::u16:
      return convert<uint16_t>(from, out);
    case StoredType::u8:
      return convert<uint8_t>(from, out);
    case StoredType::boolean:
      for (size_t i = 0; i < out.size(); ++i) out[i] = from[i] == std::byte{0} ? 0.0f : 1.0f;
      return;
    case StoredType::q4_0:
      return blocks_of_nibbles<false, false>(from, out);
    case StoredType::q4_1:
      return blocks_of_nibbles<false, true>(from, out);
    case StoredType::q5_0:
      return blocks_of_nibbles<true, false>(from, out);
    case StoredType::q5_1:
      return blocks_of_nibbles<true, true>(from, out);
    case StoredType::q8_0:
      return blocks_of_bytes(from, out);
    case StoredType::q2_k:
    case StoredType::q3_k:
    case StoredType::q4_k:
    case StoredType::q5_k:
    case StoredType::q6_k:
    case StoredType::iq4_nl:
    case StoredType::iq4_xs:
      return dequantize_k_quant(type, from, out);
    case StoredType::foreign:
      break;
  }
}

}  // namespace deltasane
