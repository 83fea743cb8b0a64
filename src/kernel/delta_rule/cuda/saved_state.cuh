// What forward saves for backward, and what the backward pass through the states saves for that of
// the inputs: in global memory, in the order in which the lanes of a warp hold it.
#pragma once

#include <type_traits>

#include "kernel/cuda/fragment.cuh"
#include "kernel/delta_rule/cuda/passes.h"
#include "kernel/delta_rule/cuda/tile.cuh"

namespace deltasane::kernel::cuda {

// A matrix in global memory that is read and written as operands A, 16 x 16 numbers by a warp:
// those of a lane are contiguous, so that a warp's are 512 bytes.
template <int planes, int rows, int columns>
struct FragmentMatrix {
  uint4 of[planes][rows / 16][columns / 16][32];
  template <int given>  // planes, of which the first are stored
  __device__ void set(int row, int column, const FragmentA<given>& x) {
#pragma unroll
    for (int p = 0; p < planes; ++p)
      of[p][row / 16][column / 16][threadIdx.x % 32] =
          make_uint4(x.plane[p][0], x.plane[p][1], x.plane[p][2], x.plane[p][3]);
  }
};

// A state: of 16 rows and 8 columns, what a lane has of them as in an Accumulator is contiguous, so
// that a warp reads and writes 512 bytes.
struct SavedState {
  float4 of[head_size / 16][head_size / 8][32];
};
// Behind all states: the magnitude classes of their entries after SANE, one word each. Only
// tile_forward writes them, and only blocks that have whole heads read them backward, which is
// never the case for few heads, for which few_heads_forward is (blocks_share_heads). Without
// states: an address that is not used.
static_assert(sizeof(SavedState) + sizeof(uint32_t) == saved_state_floats * sizeof(float));
template <class Number>
__device__ auto saved_magnitudes(Number* states, int64_t count) {
  using Word = std::conditional_t<std::is_const_v<Number>, const uint32_t, uint32_t>;
  return reinterpret_cast<Word*>(states + count * state_entries);
}
// The neutralizations of a head: the states after them, tile by tile, and their taus.
struct HeadBoundaries {
  const SavedState* state;
  const uint32_t* magnitude;
  const float* tau;
  int64_t step;  // to the next tau
  int tiles, chunks;
};
// What state_backward saves of a tile: D and M = (I - AB)^-1.
template <class Real>
struct SavedGradient {
  FragmentMatrix<result_planes<Real>, head_size, head_size> D;
  FragmentMatrix<result_planes<Real>, tile_tokens, tile_tokens> M;
};
static_assert(sizeof(SavedGradient<bf16>) == saved_gradient_elements<bf16> * sizeof(bf16));

}  // namespace deltasane::kernel::cuda
