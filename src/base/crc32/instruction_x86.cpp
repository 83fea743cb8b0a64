#include <immintrin.h>

#include "base/crc32/folding.h"
#include "base/crc32/ways.h"

namespace deltasane::crc {
namespace {

[[gnu::target("pclmul")]] inline __m128i load(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

template <uint64_t distance>
[[gnu::target("pclmul")]] inline __m128i fold(__m128i from, __m128i into) {
  constexpr Folding by(distance);
  const __m128i constants = _mm_set_epi64x(int64_t(by.second), int64_t(by.first));
  const __m128i first = _mm_clmulepi64_si128(from, constants, 0x00);
  const __m128i second = _mm_clmulepi64_si128(from, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(first, second), into);
}

// Four sums hide the wait for a product.
[[gnu::target("pclmul")]] uint32_t by_folding(std::span<const std::byte> bytes, uint32_t before) {
  size_t left = bytes.size();
  if (left < 64) return crc32_tables(bytes, before);
  const std::byte* at = bytes.data();
  __m128i a = _mm_xor_si128(load(at), _mm_cvtsi32_si128(int(~before)));
  __m128i b = load(at + 16), c = load(at + 32), d = load(at + 48);
  for (at += 64, left -= 64; left >= 64; at += 64, left -= 64) {
    a = fold<512>(a, load(at));
    b = fold<512>(b, load(at + 16));
    c = fold<512>(c, load(at + 32));
    d = fold<512>(d, load(at + 48));
  }
  a = fold<128>(fold<128>(fold<128>(a, b), c), d);
  for (; left >= 16; at += 16, left -= 16) a = fold<128>(a, load(at));
  std::byte sum[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(sum), a);
  return crc32_tables({at, left}, crc32_tables(sum, ~0u));
}

}  // namespace

std::vector<Crc32Way> instruction_ways() {
  if (!__builtin_cpu_supports("pclmul")) return {};
  return {{"pclmulqdq", by_folding}};
}

}  // namespace deltasane::crc
