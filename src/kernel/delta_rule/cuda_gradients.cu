// The gradients of a tile, given its first state S0 and the gradient G of its last one: a block per
// tile, all tiles at once.
//
// In the names of cuda_chunks.cu, with D = G diag(W), the gradient of S0 + SA' B~ + V' K~:
//
//     Z   = (I - AB)^-T (RB' dY + B~ D')                     the gradient of A~ S0' + AK V
//     dV  = AK' Z + RK' dY + K~ D'
//     ZSA ZV over YSA YV: the lower parts of (Z, dY) (SA, V)', those of Z without the diagonal
//     dA~ = Z S0  + ZSA B~ + ZV K~                           dR~ = dY S0 + YSA B~ + YV K~
//     dB~ = SA D  + ZSA' A~ + YSA' R~                        dK~ = V D   + ZV' A~ + YV' R~
//
// The gradient of log w_t is the sum over t' >= t of those of log W_t', where a~_t has W_t-1, r~_t
// has W_t, b~_t and k~_t have 1 / W_t, and the last state has the last W:
//
//     dlog w_t = sum_i (D S0)_i + sum_s (SA D)_s b~_s + (V D)_s k~_s
//              + sum_s>=t dr~_s r~_s - dB~_s b~_s - dK~_s k~_s + sum_s>t da~_s a~_s
//
// all per key channel.
//
// Half of the warps ("readers") have S0, half ("writers") have D. As long as value channels do not
// meet, a warp has 16 of them and makes transposes, SA' = (S0 A~' + V' AK') M' or Z' = (D B~' + dY'
// RB) M with M = (I - AB)^-1: there what a product leaves in the lanes is the left factor of the
// next one. Then it has 16 key channels. Where readers and writers do the same with other matrices
// they share the code: a block goes through all of it once, and would wait for what does not fit
// the instruction cache. Only products have a copy for each role, without branches, so that loads
// come before the products that need them.
//
// All of it is one file, over 500 lines, because each step stands on what the one before left in
// the lanes and in the memory below.
#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, warps = threads / 32, pair_rows = 2 * tile_tokens;
constexpr int warp_channels = 16;
static_assert(warps / 2 * warp_channels == head_size);

// What the two warps of the same key channels say to each other: of each 8 of their channels, one
// of them adds up dlog w.
struct LogDecayExchange {
  float4 of_r[32], of_a[32];  // for the writer
  float4 of_writes[32];       // for the reader
};

template <int planes, int exact>
struct GradientMemory {
  template <int of_planes, int rows, int columns>
  using Matrix = SplitMatrix<of_planes, rows, columns, Rows::woven>;
  Matrix<planes, pair_rows, head_size> reads;    // A~ over R~
  Matrix<planes, pair_rows, head_size> writes;   // B~ over K~
  Matrix<planes, head_size, tile_tokens> sa, z;  // transposed
  Matrix<exact, tile_tokens, head_size> v, dy;
  union {
    Matrix<planes, head_size, head_size> first;  // S0
    LogDecayExchange log_w[warps / 2];           // when S0 is not needed any more
  };
  Matrix<planes, head_size, head_size> last;   // D
  Matrix<planes, pair_rows, pair_rows> lower;  // nothing and AK over RB RK, transposed
  union {
    Matrix<planes, pair_rows, pair_rows> pairs;        // (Z, dY) (SA, V)', lower
    Matrix<planes, tile_tokens, tile_tokens> inverse;  // M, before there are pairs
  };
  DecayMatrix decays;  // W
};

// Stores of a row of Sums: a lane has the numbers x of the first piece and y of the second, and
// `to` is where the row begins. bf16: of two neighbours each takes one piece, so that a warp writes
// whole sectors.
__device__ void store_packed(bf16* to, uint32_t x, uint32_t y, bool wanted) {
  const int lane = threadIdx.x % 32;
  const bool second = lane % 2;
  const uint32_t other = __shfl_xor_sync(~0u, second ? x : y, 1);
  if (wanted)
    *reinterpret_cast<uint2*>(to + (second ? 8 : 0) + lane % 4 / 2 * 4) =
        second ? make_uint2(other, y) : make_uint2(x, other);
}
__device__ void store_row(bf16* to, float2 x, float2 y, bool wanted) {
  store_packed(to, packed(x.x, x.y), packed(y.x, y.y), wanted);
}
__device__ void store_row(float* to, float2 x, float2 y, bool wanted) {
  const int column = threadIdx.x % 4 * 2;
  if (!wanted) return;
  *reinterpret_cast<float2*>(to + column) = x, *reinterpret_cast<float2*>(to + 8 + column) = y;
}
// Stores of the transpose of Sums: token t's row begins at to + t * step.
__device__ void store_transposed(bf16* to, int step, int count, const Sums& sums) {
  const int line = threadIdx.x % 32 / 4;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int t = 8 * p + line;
    const float(&c)[4] = sums.c[p];
    store_packed(to + t * step, transpose(packed(c[0], c[1])), transpose(packed(c[2], c[3])),
                 t < count);
  }
}
__device__ void store_transposed(float* to, int step, int count, const Sums& sums) {
  sums.each([&](int i, int t, float x, float next) {
    if (t < count) to[t * step + i] = x;
    if (t + 1 < count) to[(t + 1) * step + i] = next;
  });
}

// What a warp does: a reader, or a writer.
template <class Real>
struct TileGradients {
  static constexpr int planes = result_planes<Real>, exact = exact_planes<Real>;
  // Two planes leave out 2^-16 of a product.
  using Products = SplitSums<planes == 2 ? 0 : 1>;
  using Memory = GradientMemory<planes, exact>;
  Memory& memory;
  const ReversePass<Real>& pass;
  const int64_t tiles, index, of_head, origin;
  const int step;   // from token to token
  const int count;  // of tokens
  // By a shuffle, so that the compiler takes branches on it for those of whole warps.
  const int warp = int(__shfl_sync(~0u, threadIdx.x / 32, 0) % warps), lane = threadIdx.x % 32;
  const bool reader = warp < warps / 2;
  const int own = warp % (warps / 2), column = own * warp_channels;  // first of the channels
  const int square_top = own / 2 * 16, square_left = own % 2 * 16;   // a reader's, of 32 x 32

  __device__ TileGradients(Memory& memory, const ReversePass<Real>& pass, int64_t tiles,
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

  // A reader's rows of S0, or a writer's of D: as they come, and as factors.
  static constexpr int state_pieces = head_size / 8, D_pieces = planes * head_size / 16;
  using RawRows = uint4[state_pieces > D_pieces ? state_pieces : D_pieces];
  using RawInverse = uint4[planes];
  using StateFactors = Left<planes>[head_size / 16];
  __device__ const KeptGradient<Real>& kept() const {
    return reinterpret_cast<const KeptGradient<Real>*>(pass.dstates)[of_head * tiles + index];
  }
  __device__ void ask_for_rows(RawRows& raw) const {
    if (reader) {
      const auto& state =
          reinterpret_cast<const KeptState*>(pass.states)[of_head * (tiles + 1) + index];
#pragma unroll
      for (int n = 0; n < state_pieces; ++n)
        raw[n] = __ldg(reinterpret_cast<const uint4*>(&state.of[own][n][lane]));
    } else {
      const auto& D = kept().D;
#pragma unroll
      for (int n = 0; n < D_pieces; ++n) raw[n] = __ldg(&D.of[n % planes][own][n / planes][lane]);
    }
  }
  __device__ void keep_rows(const RawRows& raw, StateFactors& rows) {
    if (reader)
#pragma unroll
      for (int n = 0; n < head_size / 16; ++n) {
        const float4 x = numbers(raw[2 * n]), y = numbers(raw[2 * n + 1]);
        rows[n] = Left<planes>({x.x, x.y, x.z, x.w}, {y.x, y.y, y.z, y.w});
      }
    else
#pragma unroll
      for (int n = 0; n < head_size / 16; ++n)
#pragma unroll
        for (int p = 0; p < planes; ++p) rows[n].set(p, raw[planes * n + p]);
    auto& to = reader ? memory.first : memory.last;
#pragma unroll
    for (int n = 0; n < head_size / 16; ++n) rows[n].store(to, column, 16 * n);
  }
  __device__ static float4 numbers(uint4 x) {
    return {__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)};
  }

  // What the tile takes that is `later` after this one: of a block that begins about when this one
  // has ended, and begins with a wait for it. S0, D and M:
  __device__ void bring_later_states_near(unsigned later) const {
    NV_IF_TARGET(NV_PROVIDES_SM_90, (bring_states_near(of_head * tiles + index + later);))
  }
  __device__ void bring_states_near(int64_t place) const {  // of all heads' tiles
    if (place >= pass.op.batch * pass.op.heads * tiles) return;
    const int64_t head = unsigned(place) / unsigned(tiles);
    bring_near(reinterpret_cast<const KeptState*>(pass.states) + place + head, sizeof(KeptState));
    bring_near(reinterpret_cast<const KeptGradient<Real>*>(pass.dstates) + place,
               sizeof(KeptGradient<Real>));
  }
  // And, by one warp, the vectors. One function that finds the place of both once was measured, and
  // gained half a percent where two gain two.
  __device__ void bring_later_vectors_near(unsigned later) const {
    const int64_t place = of_head * tiles + index + later;
    if (place >= pass.op.batch * pass.op.heads * tiles) return;
    const int64_t its_head = unsigned(place) / unsigned(tiles), tile = place - its_head * tiles;
    const int64_t sequence = unsigned(its_head) / unsigned(pass.op.heads);
    const int64_t token = min(tile * tile_tokens + lane % tile_tokens, pass.op.time - 1);
    const int64_t at =
        ((sequence * pass.op.time + token) * pass.op.heads + its_head - sequence * pass.op.heads) *
        head_size;
    bring_rows_near(pass.op.r, pass.op.a, at), bring_rows_near(pass.op.k, pass.op.b, at);
    bring_rows_near(pass.gradient.dy, pass.op.v, at), bring_decays_near(pass.op.w, at);
  }

  // M, by one warp.
  __device__ void ask_for_inverse(RawInverse& raw) const {
#pragma unroll
    for (int p = 0; p < planes; ++p) raw[p] = __ldg(&kept().M.of[p][0][0][lane]);
  }
  __device__ void keep_inverse(const RawInverse& raw) {
    Left<planes> inverse;
#pragma unroll
    for (int p = 0; p < planes; ++p) inverse.set(p, raw[p]);
    inverse.store(memory.inverse, 0, 0);
  }

  // Of the decay each thread has a channel and four tokens.
  using Decays = float[4];
  __device__ int decay_channel() const { return warp * 8 + lane % 8; }
  __device__ int decay_token() const { return lane / 8 * 4; }
  __device__ void ask_for_decays(Decays& w) const {
    const float* const from = pass.op.w + origin + decay_token() * step + decay_channel();
#pragma unroll
    for (int t = 0; t < 4; ++t) w[t] = decay_token() + t < count ? __ldg(from + t * step) : 1;
  }
  __device__ void keep_decays(Decays& w) {
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

  // Of the vectors each thread has one token and 8 channels; readers a, r, dy, others b, k, v.
  using OwnVectors = Eight<Real>[3];
  __device__ int own_token() const { return threadIdx.x % (threads / 2) / 8; }
  __device__ int own_part() const { return threadIdx.x % 8 * 8; }
  __device__ void ask_for_vectors(OwnVectors& x) const {
    const Real* const from[3] = {reader ? pass.op.a : pass.op.b, reader ? pass.op.r : pass.op.k,
                                 reader ? pass.gradient.dy : pass.op.v};
    if (own_token() < count)
#pragma unroll
      for (int n = 0; n < 3; ++n) x[n].load(from[n] + origin + own_token() * step + own_part());
  }
  __device__ void keep_vectors(const OwnVectors& own_vectors) {
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

  // Of a reader's square, what token t meets of s: those before it only. Rows of the sums are t, or
  // s where transposed.
  template <Lies lies>
  __device__ Sums lower_part(const Products& square) const {
    const Sums all = square.total();
    Sums kept;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = 8 * p + lane % 4 * 2 + i % 2;
        const int t = lies == Lies::straight ? row : column;
        const int s = lies == Lies::straight ? column : row;
        kept.c[p][i] = s <= (square_top ? t : t - 1) ? all.c[p][i] : 0.0f;
      }
    return kept;
  }
  // A reader's S0 A~'; and, but for the first reader, a square of what tokens meet, transposed, so
  // that A~ is the right factor of both. bottom: square_top is not 0.
  template <bool squared, bool bottom>
  __device__ void read_state(const StateFactors& first, Products& sa, Products& square) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Right<planes> asked;
      asked.template load<Lies::transposed>(memory.reads, k, 0);
      sa.add(first[k / 16], asked);
      if constexpr (squared) {
        Left<planes> met;
        if constexpr (bottom) asked.template load<Lies::transposed>(memory.reads, k, tile_tokens);
        met.template load<Lies::straight>(memory.writes, square_left, k);
        square.add(met, asked);
      }
    }
  }
  // A writer's D B~' and D K~'.
  __device__ void meet_writes(const StateFactors& last, Products& z, Products& dv) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Right<planes> written;
      written.template load<Lies::transposed>(memory.writes, k, 0);
      z.add(last[k / 16], written);
      written.template load<Lies::transposed>(memory.writes, k, tile_tokens);
      dv.add(last[k / 16], written);
    }
  }
  // Either; beside: the square, or D K~'.
  __device__ void meet(const StateFactors& rows, Products& sums, Products& beside) const {
    if (!reader)
      meet_writes(rows, sums, beside);
    else if (square_top)
      read_state<true, true>(rows, sums, beside);
    else if (square_left)
      read_state<true, false>(rows, sums, beside);
    else
      read_state<false, false>(rows, sums, beside);
  }
  __device__ void keep_lower(const Products& square) {
    Left<planes>(lower_part<Lies::transposed>(square)).store(memory.lower, square_left, square_top);
  }
  // A reader's SA' = (S0 A~' + V' AK') M', or a writer's Z' = (D B~' + dY' RB) M and dV' = D K~' +
  // Z' AK + dY' RK.
  __device__ void solve(Products& sums, Products& dv) {
    Left<exact> given;
    Right<planes> met, inverse;
    given.template load<Lies::transposed>(reader ? memory.v : memory.dy, column, 0);
    if (reader) {
      met.template load<Lies::straight>(memory.lower, tile_tokens, 0);
      inverse.template load<Lies::transposed>(memory.inverse, 0, 0);
    } else {
      met.template load<Lies::transposed>(memory.lower, tile_tokens, 0);
      inverse.template load<Lies::straight>(memory.inverse, 0, 0);
    }
    sums.add(given, met);
    Products solved;
    solved.add(Left<planes>(sums.total()), inverse);
    const Left<planes> result(solved.total());
    result.store(reader ? memory.sa : memory.z, column, 0);
    if (reader) return;
    met.template load<Lies::transposed>(memory.lower, tile_tokens, tile_tokens);
    dv.add(given, met);
    met.template load<Lies::transposed>(memory.lower, 0, tile_tokens);
    dv.add(result, met);
  }

  // Z S0 and dY S0; and a square of the pairs, of dY if at the bottom, with V if at the right.
  template <bool bottom, bool right>
  __device__ void give_reads(Products (&both)[2], Products& square) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Left<planes> z;
      Left<exact> dy;
      Right<planes> S;
      Right<right ? exact : planes> other;
      z.template load<Lies::transposed>(memory.z, 0, k);
      dy.template load<Lies::straight>(memory.dy, 0, k);
      S.template load<Lies::straight>(memory.first, k, column);
      if constexpr (right)
        other.template load<Lies::transposed>(memory.v, k, 0);
      else
        other.template load<Lies::straight>(memory.sa, k, 0);
      both[0].add(z, S);
      both[1].add(dy, S);
      if constexpr (bottom)
        square.add(dy, other);
      else
        square.add(z, other);
    }
  }
  // SA D and V D; and S0' D, of the channels of this warp with themselves.
  __device__ void give_writes(Products (&both)[2], Products& states) const {
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Left<planes> sa, S;
      Left<exact> v;
      Right<planes> D;
      sa.template load<Lies::transposed>(memory.sa, 0, k);
      v.template load<Lies::straight>(memory.v, 0, k);
      D.template load<Lies::straight>(memory.last, k, column);
      S.template load<Lies::transposed>(memory.first, column, k);
      both[0].add(sa, D);
      both[1].add(v, D);
      states.add(S, D);
    }
  }
  // Either; beside: the square, or S0' D.
  __device__ void give(Products (&both)[2], Products& beside) const {
    if (!reader)
      give_writes(both, beside);
    else if (square_top)
      square_left ? give_reads<true, true>(both, beside) : give_reads<true, false>(both, beside);
    else
      square_left ? give_reads<false, true>(both, beside) : give_reads<false, false>(both, beside);
  }
  __device__ void keep_pairs(const Products& square) {
    Left<planes>(lower_part<Lies::straight>(square)).store(memory.pairs, square_top, square_left);
  }
  // A~ and R~, or B~ and K~, as Sums have them.
  __device__ void get_vectors(Sums (&vectors)[2]) const {
    const auto& from = reader ? memory.reads : memory.writes;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      Left<planes> x;
      x.template load<Lies::straight>(from, n * tile_tokens, column);
      vectors[n] = x.sums();
    }
  }
  // Of two channels of each piece of 8.
  using StateSums = float[2][2];
  // The sums of D (S0 + SA' B~ + V' K~) in a key channel. Those of D S0 are the diagonal of S0' D,
  // and of channel c the lane 4 c + c / 2 has it.
  __device__ void get_state_sums(const Products& states, const Products (&both)[2],
                                 const Sums (&writes)[2], StateSums& state_sums) const {
    const Sums b = both[0].total(), k = both[1].total(), S = states.total();
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = lane / 4 == lane % 4 * 2 + i ? S.c[p][2 * p + i] : 0.0f;
#pragma unroll
        for (int row = 0; row < 4; row += 2)
          sum = fmaf(b.c[p][row + i], writes[0].c[p][row + i],
                     fmaf(k.c[p][row + i], writes[1].c[p][row + i], sum));
#pragma unroll
        for (int away = 4; away < 32; away *= 2) sum += __shfl_xor_sync(~0u, sum, away);
        state_sums[p][i] = sum;
      }
  }
  // The rest of both, from the pairs of tokens.
  __device__ void add_pairs(Products (&both)[2]) const {
    const auto& others = reader ? memory.writes : memory.reads;
#pragma unroll
    for (int k = 0; k < pair_rows; k += 16) {
      Right<planes> other;
      Left<planes> met[2];
      other.template load<Lies::straight>(others, k, column);
      if (reader)
        load<Lies::straight>(met, k);
      else
        load<Lies::transposed>(met, k);
#pragma unroll
      for (int n = 0; n < 2; ++n) both[n].add(met[n], other);
    }
  }
  template <Lies lies>
  __device__ void load(Left<planes> (&met)[2], int k) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) met[n].template load<lies>(memory.pairs, n * tile_tokens, k);
  }

  __device__ float2 decay_at(int t, int i) const {
    return t < 0 ? make_float2(1, 1) : *reinterpret_cast<const float2*>(memory.decays.at(t, i));
  }
  // Of the tokens lane / 4 and lane / 4 + 8, and of two channels of each piece.
  using TwoDecays = float2[2][2];
  __device__ void get_decays(int later, TwoDecays& decays) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
        decays[half][p] = decay_at(lane / 4 + 8 * half + later, column + 8 * p + lane % 4 * 2);
  }
  // Stores the gradient of a vector, given that of the one with the decay taken out.
  __device__ void store(Real* to, const Sums& sums, const TwoDecays& factor) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int t = lane / 4 + 8 * half;
      float2 x[2];
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const float2 f = factor[half][p];
        x[p] = {sums.c[p][2 * half] * f.x, sums.c[p][2 * half + 1] * f.y};
      }
      store_row(to + origin + t * step + column, x[0], x[1], t < count);
    }
  }
  __device__ void store_dv(const Products& dv) const {
    store_transposed(pass.gradient.dv + origin + column, step, count, dv.total());
  }
  __device__ void meet_other_warp() const {
    static_assert(warps / 2 == 4);
    if (own == 0) meet_at<1, 64>();
    if (own == 1) meet_at<2, 64>();
    if (own == 2) meet_at<3, 64>();
    if (own == 3) meet_at<4, 64>();
  }
  __device__ static float4 four(const float (&x)[4]) { return {x[0], x[1], x[2], x[3]}; }

  // Stores both gradients. gives[0] and [1]: what a~ and r~ give to dlog w, or [1]: what b~ and k~
  // do. inverse_w: of the channels whose dlog w this warp adds up.
  __device__ void finish_vectors(const Sums (&gradients)[2], const Sums (&vectors)[2],
                                 const StateSums& state_sums, Sums (&gives)[2],
                                 float2 (&inverse_w)[2]) const {
    TwoDecays here, before;
    get_decays(0, here);
    if (reader) {
      get_decays(-1, before);
#pragma unroll
      for (int half = 0; half < 2; ++half)
        inverse_w[half] = {__fdividef(before[half][0].x, here[half][0].x),
                           __fdividef(before[half][0].y, here[half][0].y)};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float2& x = here[i / 2][i % 2];
        before[i / 2][i % 2] = x = {reciprocal(x.x), reciprocal(x.y)};
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 earlier = decay_at(lane / 4 + 8 * half - 1, column + 8 + lane % 4 * 2);
        inverse_w[half] = {earlier.x * here[half][1].x, earlier.y * here[half][1].y};
      }
    }
    store(reader ? pass.gradient.da : pass.gradient.db, gradients[0], before);
    store(reader ? pass.gradient.dr : pass.gradient.dk, gradients[1], here);
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float x = gradients[0].c[p][i] * vectors[0].c[p][i];
        const float y = gradients[1].c[p][i] * vectors[1].c[p][i];
        // What all tokens have is added to the last one's.
        const float all = i >= 2 && lane / 4 == 7 ? state_sums[p][i % 2] : 0.0f;
        gives[0].c[p][i] = x, gives[1].c[p][i] = reader ? y : x + y - all;
      }
  }
  __device__ void finish_log_decay(const Sums (&gives)[2], const float2 (&inverse_w)[2]) {
    LogDecayExchange& exchange = memory.log_w[own];
    float4 a = four(gives[0].c[0]), r = four(gives[1].c[0]), writes = four(gives[1].c[1]);
    if (reader)
      exchange.of_a[lane] = four(gives[0].c[1]), exchange.of_r[lane] = four(gives[1].c[1]);
    else
      exchange.of_writes[lane] = four(gives[1].c[0]);
    meet_other_warp();
    if (reader)
      writes = exchange.of_writes[lane];
    else
      a = exchange.of_a[lane], r = exchange.of_r[lane];
    store_log_decay(column + (reader ? 0 : 8) + lane % 4 * 2, {a.x, a.y, a.z, a.w},
                    {r.x - writes.x, r.y - writes.y, r.z - writes.z, r.w - writes.w}, inverse_w);
  }

  // Of two channels; here: what a token gives but for its a~.
  __device__ void store_log_decay(int first, const float (&a)[4], const float (&here)[4],
                                  const float2 (&inverse_w)[2]) const {
    float later[4];  // this token and those after it
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      float sum = a[i] + here[i];
#pragma unroll
      for (int away = 4; away < 32; away *= 2) {
        const float after = __shfl_down_sync(~0u, sum, away);
        if (lane + away < 32) sum += after;
      }
      if (i < 2) sum += __shfl_sync(~0u, later[i + 2], lane % 4);
      later[i] = sum;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 2 * half, t = lane / 4 + 8 * half;
      if (t < count)
        __stcs(reinterpret_cast<float2*>(pass.gradient.dw + origin + first + t * step),
               make_float2((later[i] - a[i]) * inverse_w[half].x,
                           (later[i + 1] - a[i + 1]) * inverse_w[half].y));
    }
  }
};

template <class Real>
constexpr int blocks_at_once = exact_planes<Real> == 1 ? 3 : 1;  // on a multiprocessor

template <class Real>
__device__ void add_dtau_parts(const ReversePass<Real>& pass) {
  const int64_t chunks = pass.op.time / tile_tokens;
  if (!pass.op.tau || blockIdx.x >= chunks) return;
  const int64_t place = (blockIdx.z * chunks + blockIdx.x) * pass.op.heads + blockIdx.y;
  const float4 parts = __ldg(reinterpret_cast<const float4*>(pass.dtau_parts) + place);
  pass.gradient.dtau[place] = (parts.x + parts.y) + (parts.z + parts.w);
}

// running: blocks that run at once, on all multiprocessors.
template <class Real>
__global__ __launch_bounds__(threads,
                             blocks_at_once<Real>) void gradients_kernel(ReversePass<Real> pass,
                                                                         unsigned running) {
  using Tile = TileGradients<Real>;
  using Products = typename Tile::Products;
  extern __shared__ float4 raw_memory[];
  Tile tile(*reinterpret_cast<typename Tile::Memory*>(raw_memory), pass, gridDim.x, blockIdx.x,
            blockIdx.y, blockIdx.z);
  Products sums;    // a reader's S0 A~', or a writer's D B~'
  Products beside;  // a reader's square, or a writer's D K~', dV' and then S0' D
  {
    typename Tile::StateFactors rows;
    {
      typename Tile::Decays w;
      typename Tile::RawRows raw;
      typename Tile::RawInverse raw_inverse;
      typename Tile::OwnVectors vectors;
      tile.ask_for_decays(w);
      tile.ask_for_vectors(vectors);
      tile.ask_for_rows(raw);
      const bool has_inverse = tile.warp == 0;  // it has no square
      if (has_inverse) tile.ask_for_inverse(raw_inverse);
      if (threadIdx.x == threads - 32) tile.bring_later_states_near(running);
      if (threadIdx.x >= threads - 32) tile.bring_later_vectors_near(running);
      if (pass.dtau_parts && threadIdx.x == 0) add_dtau_parts(pass);  // all of that is on its way
      tile.keep_decays(w);
      __syncthreads();
      tile.keep_vectors(vectors);
      tile.keep_rows(raw, rows);
      if (has_inverse) tile.keep_inverse(raw_inverse);
    }
    __syncthreads();
    tile.meet(rows, sums, beside);
  }
  if (tile.reader && tile.own) tile.keep_lower(beside);
  __syncthreads();
  tile.solve(sums, beside);
  __syncthreads();
  if (!tile.reader) tile.store_dv(beside);
  Products both[2];
  Sums vectors[2], gives[2];
  typename Tile::StateSums state_sums = {};
  beside = Products();
  tile.give(both, beside);
  tile.get_vectors(vectors);
  if (tile.reader)
    tile.keep_pairs(beside);
  else
    tile.get_state_sums(beside, both, vectors, state_sums);
  __syncthreads();
  tile.add_pairs(both);
  float2 inverse_w[2];
  tile.finish_vectors({both[0].total(), both[1].total()}, vectors, state_sums, gives, inverse_w);
  tile.finish_log_decay(gives, inverse_w);
}

}  // namespace

template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t tiles = (pass.op.time + tile_tokens - 1) / tile_tokens;
  launch(gradients_kernel<Real>,
         Grid{dim3(unsigned(tiles), unsigned(pass.op.heads), unsigned(pass.op.batch)),
              dim3(threads), sizeof(GradientMemory<result_planes<Real>, exact_planes<Real>>)},
         gpu, pass, unsigned(gpu.facts().multiprocessors * blocks_at_once<Real>));
}

template void tile_gradients(const ReversePass<float>&, const Gpu&);
template void tile_gradients(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
