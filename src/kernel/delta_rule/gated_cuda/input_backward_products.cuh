// The products of input_backward.cu on the tensor cores, over 32 rows of the state at a time, which
// are copied ahead.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/split_product.cuh"
#include "kernel/delta_rule/gated_cuda/passes.h"
#include "kernel/delta_rule/gated_cuda/terms.cuh"

namespace deltasane::kernel::cuda {

constexpr int slice_rows = 32;

// Matrices as in blocked_matrix.cuh.
template <int keys>
struct Slice {
  alignas(16) __nv_bfloat16 state[slice_rows * keys];                       // S0
  alignas(16) __nv_bfloat16 dstate[slice_rows * keys];                      // H
  alignas(16) __nv_bfloat16 missing[gated_planes][slice_rows * tile_size];  // E', dV'
  alignas(16) __nv_bfloat16 dvalues[gated_planes][slice_rows * tile_size];
  SplitMatrix<1, tile_size, slice_rows> dy;
};

template <Decay decay, int keys>
struct InputMemory {
  static constexpr int slices = 2, warps = keys / 32;
  Slice<keys> slice[slices];
  // Products with the state, of a warp's channels. Pairs of four rows are in different banks.
  alignas(8) float channel[warps][tile_size][40];
  float2 pair[tile_size][tile_size];           // [s][t]: X_ts and Y_ts
  float decays[tile_size + 1][tile_size + 1];  // see decays_between
  float beta[tile_size], sums[warps][32];
  float dk[tile_size][keys], dr[tile_size][keys];  // where heads share keys: of those before
};

// Copies the slices of one head after the other, by all threads of a block.
template <Decay decay, int keys>
struct SliceLoader {
  const GatedPass& pass;
  InputMemory<decay, keys>& memory;
  Tiles tiles;
  int64_t sequence, head;  // the next one's
  int tile, heads_left;
  int64_t all_tiles;
  int row = 0, issued = 0, given = 0;

  template <int count>
  __device__ void copy(__nv_bfloat16 (&to)[count], const bf16* from) const {
    constexpr int pieces = count / 8;
#pragma unroll
    for (int i = 0; i < (pieces + keys - 1) / keys; ++i) {
      const int piece = i * keys + threadIdx.x;
      if (pieces % keys == 0 || piece < pieces)
        copy_async(reinterpret_cast<uint4*>(to) + piece,
                   reinterpret_cast<const uint4*>(from) + piece);
    }
  }
  __device__ void issue() {
    const GatedRule& op = pass.op;
    const int values = int(op.values);
    if (heads_left > 0) {
      Slice<keys>& to = memory.slice[issued % memory.slices];
      const int64_t of_head = sequence * op.heads + head, of_tile = of_head * all_tiles + tile;
      copy(to.state, pass.state_upper + ((of_tile + of_head) * values + row) * keys);
      copy(to.dstate, pass.dstate + (of_tile * values + row) * keys);
      const int64_t rows = (of_tile * gated_planes * values + row) * tile_size;
#pragma unroll
      for (int p = 0; p < gated_planes; ++p) {
        copy(to.missing[p], pass.missing + rows + p * values * tile_size);
        copy(to.dvalues[p], pass.dvalues + rows + p * values * tile_size);
      }
      constexpr int pieces = slice_rows / 8;
      if (const int i = threadIdx.x; i < tile_size * pieces) {
        const int t = i / pieces, column = i % pieces * 8, token = tiles.first(tile) + t;
        const bool present = tiles.present(token);
        const int64_t at = (sequence * op.time + (present ? token : 0)) * op.heads + head;
        copy_async(reinterpret_cast<uint4*>(to.dy.at(0, t, column)),
                   pass.gradient.dy + at * values + row + column, present);
      }
      row += slice_rows;
      if (row == values) row = 0, ++head, --heads_left;
    }
    ++issued;
    commit_group();
  }
  __device__ void begin() {
#pragma unroll
    for (int i = 0; i < InputMemory<decay, keys>::slices - 1; ++i) issue();
  }
  // The next slice, which is there until the next call.
  __device__ const Slice<keys>& next() {
    wait_group<InputMemory<decay, keys>::slices - 2>();
    __syncthreads();
    issue();
    return memory.slice[given++ % memory.slices];
  }
};

// The products of a head: a warp has 32 key channels.
template <Decay decay, int keys>
struct TileProducts {
  Accumulator read[2], erased[2], written[2];  // dY S0, dV S0, E H: (token, channel)
  Accumulator pairs;                           // of the first warp Y, of the second -X
  float states[2][2] = {};  // sums of H S0 over this lane's rows, of channels 8 n + lane / 4

  // Operand A (token, row) of a matrix whose blocks are (row, token), from row `row` on.
  template <int planes>
  __device__ static void load_transposed(
      FragmentA<planes>& to, const __nv_bfloat16 (&from)[planes][slice_rows * tile_size], int row) {
    const int lane = threadIdx.x % 32, block = (row / 8 + lane / 16) * 2 + lane / 8 % 2;
#pragma unroll
    for (int p = 0; p < planes; ++p)
      ldmatrix_transposed(to.plane[p], shared_address(from[p] + block * 64 + lane % 8 * 8));
  }
  // Operand B (row, channel) of a state.
  __device__ static void load_state(FragmentB<1>& to, const __nv_bfloat16* from, int row,
                                    int column) {
    const int lane = threadIdx.x % 32;
    const int block = (row / 8 + lane / 8 % 2) * (keys / 8) + column / 8 + lane / 16;
    ldmatrix_transposed(to.plane[0], shared_address(from + block * 64 + lane % 8 * 8));
  }
  template <int planes>
  __device__ static void add(Accumulator& sums, const FragmentA<planes>& a, const FragmentB<1>& b) {
#pragma unroll
    for (int p = planes - 1; p >= 0; --p) {
      mma(sums.c[0], a.plane[p], b.plane[0][0], b.plane[0][1]);
      mma(sums.c[1], a.plane[p], b.plane[0][2], b.plane[0][3]);
    }
  }
  // With b's rows as columns: a b'.
  template <int planes>
  __device__ static void add_by_rows(Accumulator& sums, const uint32_t (&a)[4],
                                     const FragmentA<planes>& b, int p) {
    mma(sums.c[0], a, b.plane[p][0], b.plane[p][2]);
    mma(sums.c[1], a, b.plane[p][1], b.plane[p][3]);
  }
  __device__ void add(const Slice<keys>& slice) {
    const int warp = threadIdx.x / 32;
#pragma unroll
    for (int row = 0; row < slice_rows; row += 16) {
      FragmentA<1> dy;
      FragmentA<gated_planes> missing, dv;
      dy.template load<Layout::row_major>(slice.dy, 0, row);
      load_transposed(missing, slice.missing, row);
      load_transposed(dv, slice.dvalues, row);
      if (warp == 0) {
        add_by_rows(pairs, dy.plane[0], missing, 1);
        add_by_rows(pairs, dy.plane[0], missing, 0);
      } else if (warp == 1) {
        add_by_rows(pairs, dv.plane[1], missing, 0);
        add_by_rows(pairs, dv.plane[0], missing, 1);
        add_by_rows(pairs, dv.plane[0], missing, 0);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        FragmentB<1> state, dstate;
        load_state(state, slice.state, row, warp * 32 + 16 * h);
        load_state(dstate, slice.dstate, row, warp * 32 + 16 * h);
        add(read[h], dy, state), add(erased[h], dv, state), add(written[h], missing, dstate);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const uint32_t x = state.plane[0][i], y = dstate.plane[0][i];
          states[h][i / 2] = fmaf(__uint_as_float(x << 16), __uint_as_float(y << 16),
                                  fmaf(__uint_as_float(x & 0xffff0000u),
                                       __uint_as_float(y & 0xffff0000u), states[h][i / 2]));
        }
      }
    }
  }
  // X and Y, times the decays between tokens where one is for all channels. Zeros where t < s.
  __device__ void store_pairs(InputMemory<decay, keys>& memory) const {
    const int warp = threadIdx.x / 32;
    if (warp > 1) return;
    pairs.each([&](int t, int s, float x, float next) {
      const auto store = [&](int column, float value) {
        if constexpr (decay == Decay::per_head) value *= memory.decays[column + 1][t];
        float2& pair = memory.pair[column][t];
        (warp == 0 ? pair.y : pair.x) = warp == 0 ? value : -value;
      };
      store(s, x), store(s + 1, next);
    });
  }
  // Gives every thread of a warp the 16 tokens of its channel: column lane of the result.
  __device__ static auto& by_channel(InputMemory<decay, keys>& memory, const Accumulator (&x)[2]) {
    auto& own = memory.channel[threadIdx.x / 32];
    __syncwarp();
#pragma unroll
    for (int h = 0; h < 2; ++h)
      x[h].each([&](int t, int c, float value, float next) {
        *reinterpret_cast<float2*>(&own[t][16 * h + c]) = {value, next};
      });
    __syncwarp();
    return own;
  }
  __device__ static void by_channel(InputMemory<decay, keys>& memory, const Accumulator (&x)[2],
                                    float (&to)[tile_size]) {
    const auto& own = by_channel(memory, x);
#pragma unroll
    for (int t = 0; t < tile_size; ++t) to[t] = own[t][threadIdx.x % 32];
  }
  __device__ float states_of_channel() const {
    const int lane = threadIdx.x % 32;
    float mine = 0;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      float sum = states[n / 2][n % 2];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      const float of_lane = __shfl_sync(~0u, sum, lane % 8 * 4);
      if (lane / 8 == n) mine = of_lane;
    }
    return mine;
  }
};

}  // namespace deltasane::kernel::cuda
