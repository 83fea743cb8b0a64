// The warp-wide instructions, on the host. Matrices are of 16-bit numbers, 8 x 8; lane l has, of
// each, the two in row l / 4 from column 2 (l % 4) on.
#pragma once

#include <cstdint>

namespace deltasane::emulation {

// 32 bits of lane `from`.
uint32_t shuffle(uint32_t x, unsigned from);
uint32_t ballot(bool x);  // a bit per lane
void sync_warp();

// Lane l gives the shared address of row l % 8 of matrix l / 8. Transposed: a lane loads, or
// stores, its part of the transpose.
void ldmatrix(uint32_t (&x)[4], uint32_t at, bool transposed);
void stmatrix(uint32_t at, const uint32_t (&x)[4], bool transposed);
uint32_t movmatrix(uint32_t x);

// c (16, 8) += a (16, 16) b (16, 8) for bf16 numbers. A tensor core sums with a few more bits than
// a float has and then truncates; here the sum is a double before that.
void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

}  // namespace deltasane::emulation
