// The instructions that the lanes of a warp do together, on the host. Matrices are of 16-bit
// numbers, 8 x 8; lane l has, of each, the two in row l / 4 from column 2 (l % 4) on.
#pragma once

#include <cstdint>

namespace deltasane::emulation {

// Of 32 bits: what lane `from` has brought.
uint32_t shuffle(uint32_t x, unsigned from);
uint32_t vote(bool x);  // a bit per lane
void meet_warp();

// Lane l says where in shared memory row l % 8 of matrix l / 8 is. Transposed: a lane gets, or
// gives, its part of the transpose.
void load_matrices(uint32_t (&x)[4], uint32_t at, bool transposed);
void store_matrices(uint32_t at, const uint32_t (&x)[4], bool transposed);
uint32_t transpose(uint32_t x);

// c (16, 8) += a (16, 16) b (16, 8) for bf16 numbers. A tensor core adds up with some bits more
// than a float has and then drops what a float has not; here the sum is a double before that.
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

}  // namespace deltasane::emulation
