#include <arm_acle.h>
#include <arm_neon.h>
#include <sys/auxv.h>

#include <array>
#include <cstring>

#include "base/crc32/folding.h"
#include "base/crc32/ways.h"

namespace deltasane::crc {
namespace {

uint64_t word_at(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

uint32_t in_words(std::span<const std::byte> bytes, uint32_t crc) {
  const std::byte *at = bytes.data(), *const end = at + bytes.size();
  for (; end - at >= 8; at += 8) crc = __crc32d(crc, word_at(at));
  for (; at < end; ++at) crc = __crc32b(crc, uint8_t(*at));
  return crc;
}

// An instruction takes eight bytes and waits two cycles or more for the one before it. Three
// streams hide the wait: thirds of a round, whose checksums are joined at its end.
uint32_t in_three_streams(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t third = 1024;
  static constexpr Times after_third(power_of_x(8 * third));
  uint32_t crc = ~before;
  for (; bytes.size() >= 3 * third; bytes = bytes.subspan(3 * third)) {
    const std::byte* const at = bytes.data();
    uint32_t second = 0, last = 0;
    for (size_t i = 0; i < third; i += 8) {
      crc = __crc32d(crc, word_at(at + i));
      second = __crc32d(second, word_at(at + third + i));
      last = __crc32d(last, word_at(at + 2 * third + i));
    }
    crc = after_third(after_third(crc) ^ second) ^ last;
  }
  return ~in_words(bytes, crc);
}

uint64x2_t load(const std::byte* from) {
  return vreinterpretq_u64_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(from)));
}

template <uint64_t distance>
uint64x2_t fold(uint64x2_t from, uint64x2_t into) {
  constexpr Folding by(distance);
  const poly128_t first = vmull_p64(vgetq_lane_u64(from, 0), by.first);
  const poly128_t second = vmull_high_p64(vreinterpretq_p64_u64(from), vdupq_n_p64(by.second));
  return veorq_u64(veorq_u64(vreinterpretq_u64_p128(first), vreinterpretq_u64_p128(second)), into);
}

// Eight sums hide the wait for a product.
uint32_t by_folding(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t sums = 8, round = 16 * sums;
  if (bytes.size() < round) return ~in_words(bytes, ~before);
  std::array<uint64x2_t, sums> sum;
  for (size_t i = 0; i < sums; ++i) sum[i] = load(bytes.data() + 16 * i);
  sum[0] = veorq_u64(sum[0], uint64x2_t{~before, 0});
  for (bytes = bytes.subspan(round); bytes.size() >= round; bytes = bytes.subspan(round))
    for (size_t i = 0; i < sums; ++i) sum[i] = fold<8 * round>(sum[i], load(bytes.data() + 16 * i));
  for (size_t i = 1; i < sums; ++i) sum[i] = fold<128>(sum[i - 1], sum[i]);
  const uint64x2_t all = sum.back();
  const uint32_t crc = __crc32d(__crc32d(0, vgetq_lane_u64(all, 0)), vgetq_lane_u64(all, 1));
  return ~in_words(bytes, crc);
}

}  // namespace

std::vector<Crc32Way> instruction_ways() {
  constexpr unsigned long has_pmull = 1ul << 4, has_crc32 = 1ul << 7;  // HWCAP_PMULL, HWCAP_CRC32
  const unsigned long there = ::getauxval(AT_HWCAP);
  std::vector<Crc32Way> ways;
  if (there & has_crc32) ways.push_back({"crc32", in_three_streams});
  if ((there & has_crc32) && (there & has_pmull)) ways.push_back({"pmull", by_folding});
  return ways;
}

}  // namespace deltasane::crc
