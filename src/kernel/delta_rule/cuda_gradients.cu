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
// next one. Then it has 16 key channels. All of it is one file, over 500 lines, because each step
// stands on what the one before left in the lanes and in the memory below.
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
__device__ void store_transposed(bf16* to, int64_t step, int count, const Sums& sums) {
  const int line = threadIdx.x % 32 / 4;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const int t = 8 * p + line;
    const float(&c)[4] = sums.c[p];
    store_packed(to + t * step, transpose(packed(c[0], c[1])), transpose(packed(c[2], c[3])),
                 t < count);
  }
}
__device__ void store_transposed(float* to, int64_t step, int count, const Sums& sums) {
  sums.each([&](int i, int t, float x, float next) {
    if (t < count) to[t * step + i] = x;
    if (t + 1 < count) to[(t + 1) * step + i] = next;
  });
}

// What a warp does: a reader, or a writer.
template <class Real, bool reader>
struct TileGradients {
  static constexpr int planes = result_planes<Real>, exact = exact_planes<Real>;
  // Two planes leave out 2^-16 of a product.
  using Products = SplitSums<planes == 2 ? 0 : 1>;
  GradientMemory<planes, exact>& memory;
  const ReversePass<Real>& pass;
  const int64_t tiles, index, of_head, step, origin;
  const int count;  // of tokens
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int own = warp % (warps / 2), column = own * warp_channels;  // first of the channels
  const int square_top = own / 2 * 16, square_left = own % 2 * 16;   // a reader's, of 32 x 32

  __device__ TileGradients(GradientMemory<planes, exact>& memory, const ReversePass<Real>& pass,
                           int64_t tiles, int64_t index, int64_t head, int64_t sequence)
      : memory(memory),
        pass(pass),
        tiles(tiles),
        index(index),
        of_head(sequence * pass.op.heads + head),
        step(pass.op.heads * head_size),
        origin(((sequence * pass.op.time + index * tile_tokens) * pass.op.heads + head) *
               head_size),
        count(int(min(pass.op.time - index * tile_tokens, int64_t(tile_tokens)))) {}

  // A reader's rows of S0, or a writer's of D: as they come, and as factors.
  static constexpr int row_pieces = reader ? head_size / 8 : planes * head_size / 16;
  using RawRows = uint4[row_pieces];
  using RawInverse = uint4[planes];
  using StateFactors = Left<planes>[head_size / 16];
  __device__ const KeptGradient<Real>& kept() const {
    return reinterpret_cast<const KeptGradient<Real>*>(pass.dstates)[of_head * tiles + index];
  }
  __device__ void ask_for_rows(RawRows& raw) const {
    if constexpr (reader) {
      const auto& state =
          reinterpret_cast<const KeptState*>(pass.states)[of_head * (tiles + 1) + index];
#pragma unroll
      for (int n = 0; n < row_pieces; ++n)
        raw[n] = __ldg(reinterpret_cast<const uint4*>(&state.of[own][n][lane]));
    } else {
      const auto& D = kept().D;
#pragma unroll
      for (int n = 0; n < row_pieces; ++n) raw[n] = __ldg(&D.of[n % planes][own][n / planes][lane]);
    }
  }
  __device__ void keep_rows(const RawRows& raw, StateFactors& rows) {
    const auto numbers = [](uint4 x) {
      return make_float4(__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z),
                         __uint_as_float(x.w));
    };
#pragma unroll
    for (int n = 0; n < head_size / 16; ++n) {
      if constexpr (reader) {
        const float4 x = numbers(raw[2 * n]), y = numbers(raw[2 * n + 1]);
        rows[n] = Left<planes>({x.x, x.y, x.z, x.w}, {y.x, y.y, y.z, y.w});
      } else {
#pragma unroll
        for (int p = 0; p < planes; ++p) rows[n].set(p, raw[planes * n + p]);
      }
      rows[n].store(reader ? memory.first : memory.last, column, 16 * n);
    }
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
  __device__ void ask_for_decays(Decays& w) const {
    const int channel = warp * 8 + lane % 8, first = lane / 8 * 4;
#pragma unroll
    for (int t = 0; t < 4; ++t)
      w[t] = first + t < count ? __ldg(pass.op.w + origin + (first + t) * step + channel) : 1;
  }
  __device__ void keep_decays(const Decays& w) {
    const int channel = warp * 8 + lane % 8, first = lane / 8 * 4;
    float decay[4] = {w[0], w[0] * w[1]};
    decay[2] = decay[1] * w[2], decay[3] = decay[2] * w[3];
    float so_far = decay[3];
#pragma unroll
    for (int away = 8; away < 32; away *= 2) {
      const float before = __shfl_up_sync(~0u, so_far, away);
      if (lane >= away) so_far *= before;
    }
    const float before = __shfl_up_sync(~0u, so_far, 8);
#pragma unroll
    for (int t = 0; t < 4; ++t)
      *memory.decays.at(first + t, channel) = first ? before * decay[t] : decay[t];
  }

  // Of the vectors each thread has one token and 8 channels; readers a, r, dy, others b, k, v.
  using OwnVectors = Eight<Real>[3];
  __device__ int own_token() const { return threadIdx.x % (threads / 2) / 8; }
  __device__ int own_part() const { return threadIdx.x % 8 * 8; }
  __device__ void ask_for_vectors(OwnVectors& x) const {
    if (own_token() >= count) return;
    const int64_t place = origin + own_token() * step + own_part();
    x[0].load((reader ? pass.op.a : pass.op.b) + place);
    x[1].load((reader ? pass.op.r : pass.op.k) + place);
    x[2].load((reader ? pass.gradient.dy : pass.op.v) + place);
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
  __device__ Sums lower_part(const Sums& square) const {
    Sums kept;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = 8 * p + lane % 4 * 2 + i % 2;
        const int t = lies == Lies::straight ? row : column;
        const int s = lies == Lies::straight ? column : row;
        kept.c[p][i] = s <= (square_top ? t : t - 1) ? square.c[p][i] : 0.0f;
      }
    return kept;
  }
  // sa: S0 A~'; and, but for the first reader, a square of what tokens meet, transposed, so that A~
  // is the right factor of both. bottom: square_top is not 0.
  template <bool squared, bool bottom>
  __device__ void read_state(const StateFactors& first, Products& sa) {
    Products square;
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
    if constexpr (squared)
      Left<planes>(lower_part<Lies::transposed>(square.total()))
          .store(memory.lower, square_left, square_top);
  }
  // z: D B~', dv: D K~'.
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
  // sums times M or its transpose, kept in `to` and returned as it lies in the lanes.
  template <Lies lies, class Matrix>
  __device__ Left<planes> solve(const Products& sums, Matrix& to) {
    Right<planes> inverse;
    inverse.template load<lies>(memory.inverse, 0, 0);
    Products solved;
    solved.add(Left<planes>(sums.total()), inverse);
    const Left<planes> result(solved.total());
    result.store(to, column, 0);
    return result;
  }
  // SA' = (S0 A~' + V' AK') M'
  __device__ void solve_sa(Products& sa) {
    Left<exact> v;
    Right<planes> ak;
    v.template load<Lies::transposed>(memory.v, column, 0);
    ak.template load<Lies::straight>(memory.lower, tile_tokens, 0);
    sa.add(v, ak);
    solve<Lies::transposed>(sa, memory.sa);
  }
  // Z' = (D B~' + dY' RB) M and dV' = D K~' + Z' AK + dY' RK
  __device__ void solve_z(Products& z, Products& dv) {
    Left<exact> dy;
    Right<planes> met;
    dy.template load<Lies::transposed>(memory.dy, column, 0);
    met.template load<Lies::transposed>(memory.lower, tile_tokens, 0);
    z.add(dy, met);
    const Left<planes> solved = solve<Lies::straight>(z, memory.z);
    met.template load<Lies::transposed>(memory.lower, 0, tile_tokens);
    dv.add(solved, met);
    met.template load<Lies::transposed>(memory.lower, tile_tokens, tile_tokens);
    dv.add(dy, met);
  }

  // Z S0 and dY S0; and a square of the pairs, of dY if at the bottom, with V if at the right.
  template <bool bottom, bool right>
  __device__ void give_reads(Products (&both)[2]) {
    Products square;
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
    Left<planes>(lower_part<Lies::straight>(square.total()))
        .store(memory.pairs, square_top, square_left);
  }
  // SA D and V D; and the sums of D S0 in a key channel, which are the diagonal of S0' D.
  __device__ void give_writes(Products (&both)[2], float (&state_sums)[2][2]) const {
    Products states;
#pragma unroll
    for (int k = 0; k < head_size; k += 16) {
      Left<planes> x;
      Left<exact> v;
      Right<planes> D;
      D.template load<Lies::straight>(memory.last, k, column);
      x.template load<Lies::transposed>(memory.sa, 0, k);
      v.template load<Lies::straight>(memory.v, 0, k);
      both[0].add(x, D);
      both[1].add(v, D);
      x.template load<Lies::transposed>(memory.first, column, k);
      states.add(x, D);
    }
    const Sums sums = states.total();
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float diagonal = lane / 4 % 2 ? sums.c[p][2 * p + 1] : sums.c[p][2 * p];
#pragma unroll
      for (int i = 0; i < 2; ++i)  // of channel c, lane 4 c + c / 2 has it
        state_sums[p][i] = __shfl_sync(~0u, diagonal, lane % 4 * 9 + 4 * i);
    }
  }
  // What reads (A~ and R~) or writes (B~ and K~) as Sums have them.
  template <class Matrix>
  __device__ void get_both(const Matrix& vectors, Sums (&both)[2]) const {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      Left<planes> x;
      x.template load<Lies::straight>(vectors, n * tile_tokens, column);
      both[n] = x.sums();
    }
  }
  // state_sums becomes that of D (S0 + SA' B~ + V' K~).
  __device__ void add_write_sums(const Products (&both)[2], const Sums (&writes)[2],
                                 float (&state_sums)[2][2]) const {
    const Sums b = both[0].total(), k = both[1].total();
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float sum = 0;
#pragma unroll
        for (int row = 0; row < 4; row += 2)
          sum = fmaf(b.c[p][row + i], writes[0].c[p][row + i],
                     fmaf(k.c[p][row + i], writes[1].c[p][row + i], sum));
#pragma unroll
        for (int away = 4; away < 32; away *= 2) sum += __shfl_xor_sync(~0u, sum, away);
        state_sums[p][i] += sum;
      }
  }
  // The rest of both, from the pairs of tokens.
  template <Lies lies, class Matrix>
  __device__ void add_pairs(Products (&both)[2], const Matrix& others) const {
#pragma unroll
    for (int k = 0; k < pair_rows; k += 16) {
      Right<planes> other;
      other.template load<Lies::straight>(others, k, column);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        Left<planes> met;
        met.template load<lies>(memory.pairs, n * tile_tokens, k);
        both[n].add(met, other);
      }
    }
  }

  __device__ float2 decay_at(int t, int i) const {
    return t < 0 ? make_float2(1, 1) : *reinterpret_cast<const float2*>(memory.decays.at(t, i));
  }
  // Of the tokens lane / 4 and lane / 4 + 8, and of two channels of each piece.
  using TwoDecays = float2[2][2];
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
  __device__ void meet_other_warp() const {
    static_assert(warps / 2 == 4);
    if (own == 0) meet_at<1, 64>();
    if (own == 1) meet_at<2, 64>();
    if (own == 2) meet_at<3, 64>();
    if (own == 3) meet_at<4, 64>();
  }
  __device__ static float4 four(const float (&x)[4]) { return {x[0], x[1], x[2], x[3]}; }

  __device__ void get_decays(int later, TwoDecays& decays) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
        decays[half][p] = decay_at(lane / 4 + 8 * half + later, column + 8 * p + lane % 4 * 2);
  }
  __device__ void finish_reads(const Sums (&gradients)[2]) {
    TwoDecays here, before;
    get_decays(0, here);
    get_decays(-1, before);
    store(pass.gradient.da, gradients[0], before);
    store(pass.gradient.dr, gradients[1], here);
    Sums of[2];
    get_both(memory.reads, of);
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 8; ++i) of[n].c[i / 4][i % 4] *= gradients[n].c[i / 4][i % 4];
    LogDecayExchange& exchange = memory.log_w[own];
    exchange.of_a[lane] = four(of[0].c[1]), exchange.of_r[lane] = four(of[1].c[1]);
    meet_other_warp();
    const float4 writes = exchange.of_writes[lane];
    store_log_decay<0>(four(of[0].c[0]), four(of[1].c[0]), writes);
  }
  __device__ void finish_writes(const Sums (&gradients)[2], const Sums (&writes)[2],
                                const float (&state_sums)[2][2]) {
    TwoDecays inverse;
    get_decays(0, inverse);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int p = 0; p < 2; ++p)
        inverse[half][p] = {reciprocal(inverse[half][p].x), reciprocal(inverse[half][p].y)};
    store(pass.gradient.db, gradients[0], inverse);
    store(pass.gradient.dk, gradients[1], inverse);
    Sums of;
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        of.c[p][i] =
            fmaf(gradients[0].c[p][i], writes[0].c[p][i], gradients[1].c[p][i] * writes[1].c[p][i]);
        // What all tokens have is added to the last one's.
        if (i >= 2 && lane / 4 == 7) of.c[p][i] -= state_sums[p][i % 2];
      }
    LogDecayExchange& exchange = memory.log_w[own];
    exchange.of_writes[lane] = four(of.c[0]);
    meet_other_warp();
    store_log_decay<1>(exchange.of_a[lane], exchange.of_r[lane], four(of.c[1]));
  }

  // Each of them of the rows lane / 4 and lane / 4 + 8, two channels.
  template <int piece>
  __device__ void store_log_decay(float4 of_a, float4 of_r, float4 of_writes) const {
    const float a[4] = {of_a.x, of_a.y, of_a.z, of_a.w};
    const float here[4] = {of_r.x - of_writes.x, of_r.y - of_writes.y, of_r.z - of_writes.z,
                           of_r.w - of_writes.w};
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
    const int first = column + 8 * piece + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 2 * half, t = lane / 4 + 8 * half;
      const float2 here = decay_at(t, first), before = decay_at(t - 1, first);  // w: their quotient
      if (t < count)
        __stcs(reinterpret_cast<float2*>(pass.gradient.dw + origin + first + t * step),
               make_float2((later[i] - a[i]) * __fdividef(before.x, here.x),
                           (later[i + 1] - a[i + 1]) * __fdividef(before.y, here.y)));
    }
  }
};

template <class Real>
__device__ void add_dtau_parts(const ReversePass<Real>& pass) {
  const int64_t chunks = pass.op.time / tile_tokens;
  if (!pass.op.tau || blockIdx.x >= chunks) return;
  const int64_t place = (blockIdx.z * chunks + blockIdx.x) * pass.op.heads + blockIdx.y;
  const float4 parts = __ldg(reinterpret_cast<const float4*>(pass.dtau_parts) + place);
  pass.gradient.dtau[place] = (parts.x + parts.y) + (parts.z + parts.w);
}

// Readers and writers meet at the same barriers.
template <class Real, bool reader>
__device__ void find_gradients(GradientMemory<result_planes<Real>, exact_planes<Real>>& memory,
                               const ReversePass<Real>& pass) {
  using Tile = TileGradients<Real, reader>;
  using Products = typename Tile::Products;
  Tile tile(memory, pass, gridDim.x, blockIdx.x, blockIdx.y, blockIdx.z);
  Products both[2];  // S0 A~', or D B~' and D K~'
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
      const bool has_inverse = reader && tile.own == 0;  // it has no square
      if (has_inverse) tile.ask_for_inverse(raw_inverse);
      if (pass.dtau_parts && threadIdx.x == 0) add_dtau_parts(pass);  // all of that is on its way
      tile.keep_decays(w);
      __syncthreads();
      tile.keep_vectors(vectors);
      tile.keep_rows(raw, rows);
      if (has_inverse) tile.keep_inverse(raw_inverse);
    }
    __syncthreads();
    if constexpr (!reader)
      tile.meet_writes(rows, both[0], both[1]);
    else if (tile.own == 0)
      tile.template read_state<false, false>(rows, both[0]);
    else if (tile.own == 1)
      tile.template read_state<true, false>(rows, both[0]);
    else
      tile.template read_state<true, true>(rows, both[0]);
  }
  __syncthreads();
  if constexpr (reader)
    tile.solve_sa(both[0]);
  else
    tile.solve_z(both[0], both[1]);
  __syncthreads();
  if constexpr (reader) {
    both[0] = both[1] = Products();
    if (tile.own == 0) tile.template give_reads<false, false>(both);
    if (tile.own == 1) tile.template give_reads<false, true>(both);
    if (tile.own == 2) tile.template give_reads<true, false>(both);
    if (tile.own == 3) tile.template give_reads<true, true>(both);
    __syncthreads();
    tile.template add_pairs<Lies::straight>(both, memory.writes);
    tile.finish_reads({both[0].total(), both[1].total()});
  } else {
    store_transposed(pass.gradient.dv + tile.origin + tile.column, tile.step, tile.count,
                     both[1].total());
    both[0] = both[1] = Products();
    Sums writes[2];
    float state_sums[2][2];
    tile.give_writes(both, state_sums);
    tile.get_both(memory.writes, writes);
    tile.add_write_sums(both, writes, state_sums);
    __syncthreads();
    tile.template add_pairs<Lies::transposed>(both, memory.reads);
    tile.finish_writes({both[0].total(), both[1].total()}, writes, state_sums);
  }
}

template <class Real>
__global__ __launch_bounds__(threads, exact_planes<Real> == 1
                                          ? 3
                                          : 1) void gradients_kernel(ReversePass<Real> pass) {
  extern __shared__ float4 raw_memory[];
  auto& memory =
      *reinterpret_cast<GradientMemory<result_planes<Real>, exact_planes<Real>>*>(raw_memory);
  if (threadIdx.x < threads / 2)
    find_gradients<Real, true>(memory, pass);
  else
    find_gradients<Real, false>(memory, pass);
}

}  // namespace

template <class Real>
void tile_gradients(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t tiles = (pass.op.time + tile_tokens - 1) / tile_tokens;
  launch(gradients_kernel<Real>,
         Grid{dim3(unsigned(tiles), unsigned(pass.op.heads), unsigned(pass.op.batch)),
              dim3(threads), sizeof(GradientMemory<result_planes<Real>, exact_planes<Real>>)},
         gpu, pass);
}

template void tile_gradients(const ReversePass<float>&, const Gpu&);
template void tile_gradients(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
