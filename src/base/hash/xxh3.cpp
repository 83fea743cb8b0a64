#include "base/hash/xxh3.h"

namespace deltasane {

Xxh3::Xxh3() {
  XXH3_INITSTATE(&state_);
  XXH3_64bits_reset(&state_);
}

void Xxh3::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_, bytes.data(), bytes.size());
}

uint64_t Xxh3::digest() const { return XXH3_64bits_digest(&state_); }

}  // namespace deltasane
