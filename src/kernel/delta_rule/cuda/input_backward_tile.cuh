// A block of input_backward.cu: its shared memory, the roles of its warps, and the loads of a tile.
#pragma once

#include "kernel/delta_rule/cuda/operands.cuh"
#include "kernel/delta_rule/cuda/saved_state.cuh"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32, pair_rows = 2 * tile_tokens;
constexpr int warp_channels = 16;
static_assert(warps / 2 * warp_channels == head_size);

// What the two warps of the same key channels exchange: of each 8 of their channels, one of them
// adds up dlog w.
struct LogDecayExchange {
  float4 of_r[32], of_a[32];  // for the writer
  float4 of_writes[32];       // for the reader
};

// state_columns: of S0 and D that are there at a time.
template <int planes, int exact, int state_columns>
struct GradientMemory {
  template <int of_planes, int rows, int columns>
  using Matrix = SplitMatrix<of_planes, rows, columns, SharedLayout::swizzled>;
  Matrix<planes, pair_rows, head_size> reads;    // A~ over R~
  Matrix<planes, pair_rows, head_size> writes;   // B~ over K~
  Matrix<planes, head_size, tile_tokens> sa, z;  // transposed
  Matrix<exact, tile_tokens, head_size> v, dy;
  union {
    Matrix<planes, head_size, state_columns> first;    // S0
    LogDecayExchange log_w[warps / 2];           // when S0 is no longer needed
  };
  Matrix<planes, head_size, state_columns> last;     // D
  Matrix<planes, pair_rows, pair_rows> lower;  // nothing and AK over RB RK, transposed
  union {
    Matrix<planes, pair_rows, pair_rows> pairs;        // (Z, dY) (SA, V)', lower
    Matrix<planes, tile_tokens, tile_tokens> inverse;  // M, before there are pairs
  };
  DecayMatrix decays;  // W
};

// The tile of a block, as a reader or a writer warp sees it.
template <class Real, int columns>
struct GradientTile {
  static constexpr int planes = result_planes<Real>, exact = exact_planes<Real>;
  static constexpr int passes = head_size / columns;  // over the columns of the states
  using Memory = GradientMemory<planes, exact, columns>;
  Memory& memory;
  const BackwardPass<Real>& pass;
  const int64_t tiles, index, of_head, origin;
  const int step;   // from token to token
  const int count;  // of tokens
  // By a shuffle, so that the compiler knows that branches on it are uniform over a warp.
  const int warp = int(__shfl_sync(~0u, threadIdx.x / 32, 0) % warps), lane = threadIdx.x % 32;
  const bool reader = warp < warps / 2;
  const int own = warp % (warps / 2), column = own * warp_channels;  // first of the channels
  const int square_top = own / 2 * 16, square_left = own % 2 * 16;   // a reader's, of 32 x 32

  __device__ GradientTile(Memory& memory, const BackwardPass<Real>& pass, int64_t tiles,
                          int64_t index, int64_t head, int64_t sequence)
      : memory(memory),
        pass(pass),
        tiles(tiles),
        index(index),
        of_head(sequence * pass.op.heads + head),
        origin(((sequence * pass.op.time + index * tile_tokens) * pass.op.heads + head) *
               head_size),
        step(int(pass.op.heads) * head_size),
        count(int(min(pass.op.time - index * tile_tokens, int64_t(tile_tokens)))) {}

  // A reader's rows of S0, or a writer's of D: as they are in memory, and as operands.
  static constexpr int state_pieces = head_size / 8, D_pieces = planes * head_size / 16;
  using RawRows = uint4[state_pieces > D_pieces ? state_pieces : D_pieces];
  using RawInverse = uint4[planes];
  using StateOperands = FragmentA<planes>[head_size / 16];
  __device__ const SavedGradient<Real>& saved() const {
    return reinterpret_cast<const SavedGradient<Real>*>(pass.dstates)[of_head * tiles + index];
  }
  __device__ void load_rows(RawRows& raw) const {
    if (reader) {
      const auto& state =
          reinterpret_cast<const SavedState*>(pass.states)[of_head * (tiles + 1) + index];
#pragma unroll
      for (int n = 0; n < state_pieces; ++n)
        raw[n] = __ldg(reinterpret_cast<const uint4*>(&state.of[own][n][lane]));
    } else {
      const auto& D = saved().D;
#pragma unroll
      for (int n = 0; n < D_pieces; ++n) raw[n] = __ldg(&D.of[n % planes][own][n / planes][lane]);
    }
  }
  __device__ void split_rows(const RawRows& raw, StateOperands& rows) const {
    if (reader)
#pragma unroll
      for (int n = 0; n < head_size / 16; ++n) {
        const float4 x = as_floats(raw[2 * n]), y = as_floats(raw[2 * n + 1]);
        rows[n] = FragmentA<planes>({x.x, x.y, x.z, x.w}, {y.x, y.y, y.z, y.w});
      }
    else
#pragma unroll
      for (int n = 0; n < head_size / 16; ++n)
#pragma unroll
        for (int p = 0; p < planes; ++p) rows[n].set(p, raw[planes * n + p]);
  }
  // The columns of a pass.
  __device__ void store_columns(const StateOperands& rows, int of_pass) {
    constexpr int pieces = columns / 16;
    auto& to = reader ? memory.first : memory.last;
#pragma unroll
    for (int n = 0; n < head_size / 16; ++n)
      if (n / pieces == of_pass) rows[n].store(to, column, n % pieces * 16);
  }
  // The pass that has this warp's columns, and where they are then.
  __device__ int own_pass() const { return column / columns; }
  __device__ int place() const { return column % columns; }
  __device__ static float4 as_floats(uint4 x) {
    return {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
  }

  // Prefetches into L2 for the tile that is `later` after this one, of a block that starts about
  // when this one ends, and would start with a wait. S0, D and M:
  __device__ void prefetch_later_states(unsigned later) const {
    NV_IF_TARGET(NV_PROVIDES_SM_90, (prefetch_states(of_head * tiles + index + later);))
  }
  __device__ void prefetch_states(int64_t place) const {  // of all heads' tiles
    if (place >= pass.op.batch * pass.op.heads * tiles) return;
    const int64_t head = unsigned(place) / unsigned(tiles);
    prefetch_l2(reinterpret_cast<const SavedState*>(pass.states) + place + head,
                sizeof(SavedState));
    prefetch_l2(reinterpret_cast<const SavedGradient<Real>*>(pass.dstates) + place,
                sizeof(SavedGradient<Real>));
  }
  // And, by one warp, the vectors. One function that computes the place of both once was measured,
  // and gained half a percent where two gain two.
  __device__ void prefetch_later_vectors(unsigned later) const {
    const int64_t place = of_head * tiles + index + later;
    if (place >= pass.op.batch * pass.op.heads * tiles) return;
    const int64_t its_head = unsigned(place) / unsigned(tiles), tile = place - its_head * tiles;
    const int64_t sequence = unsigned(its_head) / unsigned(pass.op.heads);
    const int64_t token = min(tile * tile_tokens + lane % tile_tokens, pass.op.time - 1);
    const int64_t at =
        ((sequence * pass.op.time + token) * pass.op.heads + its_head - sequence * pass.op.heads) *
        head_size;
    prefetch_rows(pass.op.r, pass.op.a, at), prefetch_rows(pass.op.k, pass.op.b, at);
    prefetch_rows(pass.gradient.dy, pass.op.v, at), prefetch_decays(pass.op.w, at);
  }

  // M, by one warp.
  __device__ void load_inverse(RawInverse& raw) const {
#pragma unroll
    for (int p = 0; p < planes; ++p) raw[p] = __ldg(&saved().M.of[p][0][0][lane]);
  }
  __device__ void store_inverse(const RawInverse& raw) {
    FragmentA<planes> inverse;
#pragma unroll
    for (int p = 0; p < planes; ++p) inverse.set(p, raw[p]);
    inverse.store(memory.inverse, 0, 0);
  }

  // Of the decay each thread has a channel and four tokens.
  using Decays = float[4];
  __device__ int decay_channel() const { return warp * 8 + lane % 8; }
  __device__ int decay_token() const { return lane / 8 * 4; }
  __device__ void load_decays(Decays& w) const {
    const float* const from = pass.op.w + origin + decay_token() * step + decay_channel();
#pragma unroll
    for (int t = 0; t < 4; ++t) w[t] = decay_token() + t < count ? __ldg(from + t * step) : 1;
  }
  __device__ void store_decays(Decays& w) {
    w[1] *= w[0], w[2] *= w[1], w[3] *= w[2];
    float so_far = w[3];
#pragma unroll
    for (int away = 8; away < 32; away *= 2) {
      const float before = __shfl_up_sync(~0u, so_far, away);
      if (lane >= away) so_far *= before;
    }
    const float other = __shfl_up_sync(~0u, so_far, 8);
    const float before = decay_token() ? other : 1.0f;
#pragma unroll
    for (int t = 0; t < 4; ++t)
      *memory.decays.at(decay_token() + t, decay_channel()) = before * w[t];
  }

  // Of the vectors each thread has one token and 8 channels; readers a, r, dy, writers b, k, v.
  using OwnVectors = Packed<Real>[3];
  __device__ int own_token() const { return threadIdx.x % (threads / 2) / 8; }
  __device__ int own_part() const { return threadIdx.x % 8 * 8; }
  __device__ void load_vectors(OwnVectors& x) const {
    const Real* const from[3] = {reader ? pass.op.a : pass.op.b, reader ? pass.op.r : pass.op.k,
                                 reader ? pass.gradient.dy : pass.op.v};
    if (own_token() < count)
#pragma unroll
      for (int n = 0; n < 3; ++n)
        x[n].load_constant(from[n] + origin + own_token() * step + own_part());
  }
  __device__ void store_vectors(const OwnVectors& own_vectors) {
    const int token = own_token(), part = own_part();
    auto& to = reader ? memory.reads : memory.writes;
    float factor[8], x[8];
    memory.decays.read(token, part, factor);
    if (!reader)
#pragma unroll
      for (int i = 0; i < 8; ++i) factor[i] = reciprocal(factor[i]);
    set_scaled(to, tile_tokens + token, part, own_vectors[1], factor);
    if (reader) {
      if (token)
        memory.decays.read(token - 1, part, factor);
      else
#pragma unroll
        for (int i = 0; i < 8; ++i) factor[i] = 1;
    }
    set_scaled(to, token, part, own_vectors[0], factor);
    own_vectors[2].unpack(x);
    (reader ? memory.dy : memory.v).set(token, part, x);
  }
};

}  // namespace
}  // namespace deltasane::kernel::cuda
