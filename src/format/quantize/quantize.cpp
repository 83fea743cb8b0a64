#include "format/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "format/k_quants/quantize_k_quant.h"

namespace deltasane {
namespace {

constexpr float f16_limit = 65520.0f;  // this and more rounds to infinity

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

void to_f16(std::span<const float> in, std::byte* out, std::string_view what) {
  for (size_t i = 0; i < in.size(); ++i) {
    if (std::isfinite(in[i]) && std::fabs(in[i]) >= f16_limit)
      fail(Fault::overflow, what, ": element ", i, ": expected a number that f16 holds, found ",
           in[i], "; bf16 and f32 hold it");
    store(out + 2 * i, f16(in[i]));
  }
}

void to_bf16(std::span<const float> in, std::byte* out) {
  for (size_t i = 0; i < in.size(); ++i) store(out + 2 * i, bf16(in[i]));
}

// The element of largest magnitude, with its sign.
float extreme(std::span<const float> block, size_t first, std::string_view what) {
  float largest = 0;
  for (size_t j = 0; j < block.size(); ++j) {
    if (!std::isfinite(block[j]))
      fail(Fault::overflow, what, ": element ", first + j, ": expected a finite number, found ",
           block[j]);
    if (std::fabs(block[j]) > std::fabs(largest)) largest = block[j];
  }
  return largest;
}

std::byte* put_scale(std::byte* out, float d, size_t first, std::string_view what) {
  if (std::fabs(d) >= f16_limit)
    fail(Fault::overflow, what, ": element ", first, ": expected a block scale that f16 holds, ",
         "found ", d);
  store(out, f16(d));
  return out + 2;
}

void to_q8_0(std::span<const float> in, std::byte* out, std::string_view what) {
  for (size_t first = 0; first < in.size(); first += 32) {
    const std::span<const float> block = in.subspan(first, 32);
    const float d = std::fabs(extreme(block, first, what)) / 127.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    out = put_scale(out, d, first, what);
    // A scale so small that its inverse is infinite is stored as zero: any q would do, 0 is chosen.
    for (const float x : block)
      store(out++, std::isfinite(inverse) ? int8_t(std::round(x * inverse)) : int8_t{0});
  }
}

void to_q4_0(std::span<const float> in, std::byte* out, std::string_view what) {
  for (size_t first = 0; first < in.size(); first += 32) {
    const std::span<const float> block = in.subspan(first, 32);
    const float d = extreme(block, first, what) / -8.0f;
    const float inverse = d != 0 ? 1.0f / d : 0.0f;
    out = put_scale(out, d, first, what);
    const auto q = [&](float x) {
      return std::isfinite(inverse) ? std::min(15, int(x * inverse + 8.5f)) : 8;
    };
    for (size_t j = 0; j < 16; ++j) store(out++, uint8_t(q(block[j]) | q(block[j + 16]) << 4));
  }
}

}  // namespace

void quantize_from_float(StoredType type, std::span<const float> in, std::span<std::byte> out,
                         std::string_view what, std::span<const float> importance) {
  require(out.size() == stored_bytes(type, in.size(), what),
          "quantize_from_float has an output of the right size");
  if (in.empty()) return;
  switch (type) {
    case StoredType::f32:
      std::memcpy(out.data(), in.data(), out.size());
      return;
    case StoredType::f16:
      return to_f16(in, out.data(), what);
    case StoredType::bf16:
      return to_bf16(in, out.data());
    case StoredType::q8_0:
      return to_q8_0(in, out.data(), what);
    case StoredType::q4_0:
      return to_q4_0(in, out.data(), what);
    case StoredType::q4_k:
    case StoredType::q5_k:
    case StoredType::q6_k:
      return quantize_k_quant(type, in, importance, out.data(), what);
    default:
      fail(Fault::argument, what, ": expected ", written_types_text, " to write, found ",
           name_of(type));
  }
}

}  // namespace deltasane
