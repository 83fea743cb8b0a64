// xxh3, 64 bits, of pieces one after another. It takes no memory, so a checksum cannot fail.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace deltasane {

class Xxh3 {
 public:
  Xxh3();
  void add(std::span<const std::byte> bytes);
  uint64_t digest() const;

 private:
  XXH3_state_t state_;
};

}  // namespace deltasane
