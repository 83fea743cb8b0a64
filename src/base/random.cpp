#include "base/random.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace deltasane {

std::array<uint32_t, 4> philox(uint64_t seed, uint64_t stream, uint64_t block) {
  uint32_t c0 = uint32_t(block), c1 = uint32_t(block >> 32);
  uint32_t c2 = uint32_t(stream), c3 = uint32_t(stream >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = uint32_t(p1 >> 32) ^ c1 ^ k0;
    c1 = uint32_t(p1);
    c2 = uint32_t(p0 >> 32) ^ c3 ^ k1;
    c3 = uint32_t(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

uint32_t Random::word() {
  const uint64_t block = word_ / 4;
  if (block != cached_block_) {
    cached_ = philox(seed_, stream_, block);
    cached_block_ = block;
  }
  return cached_[word_++ % 4];
}

uint64_t Random::below(uint64_t bound) {
  require(bound > 0, "Random::below needs a positive bound");
  const uint64_t unbiased = ~uint64_t{0} - (~uint64_t{0} % bound + 1) % bound;
  for (;;) {
    const uint64_t drawn = word64();
    if (drawn <= unbiased) return drawn % bound;
  }
}

double Random::uniform() { return double(word64() >> 11) * 0x1p-53; }

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

uint64_t stream_named(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace deltasane
