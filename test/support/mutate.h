// Random corruption of a file: bytes changed, bits flipped, set to boundary values, removed,
// repeated, truncated.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/random.h"

namespace deltasane::test {

inline void mutate(std::string& bytes, Random& random) {
  for (uint64_t change = 0, changes = 1 + random.below(4); change < changes; ++change) {
    if (bytes.empty()) break;
    const size_t at = random.below(bytes.size());
    const size_t length = 1 + random.below(std::min<size_t>(16, bytes.size() - at));
    constexpr std::string_view boundary("\x00\x01\x7f\x80\xff\x28\x29\x7d\x52", 9);
    switch (random.below(6)) {
      case 0:
        bytes[at] = char(random.word());
        break;
      case 1:
        for (size_t i = 0; i < length; ++i)
          bytes[at + i] = boundary[random.below(boundary.size())];
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(random.below(bytes.size()), bytes.substr(at, length));
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes[at] = char(bytes[at] ^ (1 << random.below(8)));
        break;
    }
  }
}

}  // namespace deltasane::test
