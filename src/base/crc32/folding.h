// CRC-32 by products of polynomials, for processors that multiply 64 bits by 64 bits (Gopal and
// others, Fast CRC Computation for Generic Polynomials Using PCLMULQDQ, Intel 2009).
//
// 16 bytes are folded into those that lie D bits behind them: their product with x^D modulo P is
// added there. The first eight bytes are multiplied by x^(D + 32), the others by x^(D - 32); a shift
// by one bit makes up for the reversed order of bits.
#pragma once

#include "base/crc32/polynomial.h"

namespace deltasane::crc {

struct Folding {
  uint64_t first, second;
  constexpr explicit Folding(uint64_t distance)
      : first(uint64_t{power_of_x(distance + 32)} << 1),
        second(uint64_t{power_of_x(distance - 32)} << 1) {}
};
static_assert(Folding(512).first == 0x154442bd4 && Folding(512).second == 0x1c6e41596);

}  // namespace deltasane::crc
