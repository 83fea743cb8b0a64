// What a tile's 16 tokens do to a state, as factors of products on the tensor cores.
//
// In the names of cuda_gradients.cu, rows of the state do not meet:
//
//     SA' = (S0 A~' + V' AK') M'      M = (I - AB)^-1
//     Y'  = S0 R~' + SA' RB' + V' RK'
//     S   = (S0 + SA' B~ + V' K~) diag(W)
//
// and on the way back, with D = G diag(W), the same:
//
//     Z'  = (D B~' + dY' RB) M
//     dS0 = D + Z' A~ + dY' R~
//
// so warps with different rows of the state need nothing of each other, but for those that make
// these factors. Forward two warps share 16 rows: each has half of the columns, and they add up S0
// A~'. On the way back a warp has 16 rows.
#pragma once

#include <type_traits>

#include "kernel/delta_rule/cuda_parts.h"
#include "kernel/delta_rule/cuda_split.cuh"
#include "kernel/delta_rule/cuda_tile.cuh"

namespace deltasane::kernel::cuda {

constexpr int shared_rows = 16, own_columns = head_size / 2;
constexpr int owner_warps = 2 * head_size / shared_rows, owners = 32 * owner_warps;  // of the state
constexpr int makers = 128;  // threads that make the next tile's factors

constexpr int state_planes = 3;  // of what meets the state
// Sums of what a state is made of. For floats the large products are rounded: cut off, a state's
// largest error is up to three times plain arithmetic's.
template <class Real>
constexpr Large large_products = Large::cut;
template <>
constexpr Large large_products<float> = Large::rounded;
template <class Real, int apart, Order order = Order::rows>
using StateSums = SplitSums<apart, order, large_products<Real>>;

template <int planes, int read_planes>
struct TileFactors {
  SplitMatrix<state_planes, tile_tokens, head_size> a, b;
  SplitMatrix<read_planes, tile_tokens, head_size> r;
  SplitMatrix<planes, tile_tokens, head_size> given;            // v, or dy on the way back
  SplitMatrix<state_planes, tile_tokens, tile_tokens> inverse;  // M', or M on the way back
  SplitMatrix<read_planes, tile_tokens, tile_tokens> rb;
  alignas(16) float decay[head_size];
};
template <class Real>
struct ForwardFactors : TileFactors<exact_planes<Real>, result_planes<Real>> {
  SplitMatrix<state_planes, tile_tokens, head_size> k;
  SplitMatrix<state_planes, tile_tokens, tile_tokens> ak;
  SplitMatrix<result_planes<Real>, tile_tokens, tile_tokens> rk;
};
template <class Real>
struct ReverseFactors : TileFactors<exact_planes<Real>, state_planes> {};

// Decays by token and channel. 8 channels of 4 tokens, two at a time, lie in different banks; so do
// every other four channels of a token.
struct DecayMatrix {
  alignas(16) float x[tile_tokens][head_size + 8];
  __device__ float* at(int t, int channel) { return &x[t][channel ^ channel / 32 * 4]; }
  __device__ const float* at(int t, int channel) const { return &x[t][channel ^ channel / 32 * 4]; }
  // Of eight channels, the first at a multiple of eight.
  __device__ void read(int t, int channel, float (&to)[8]) const {
    const auto four = [&](int c) { return *reinterpret_cast<const float4*>(at(t, c)); };
    Eight<float>{four(channel), four(channel + 4)}.unpack(to);
  }
};

// Eight channels of a vector, each times its factor, into a row of a matrix.
template <class Matrix, class Real>
__device__ void set_scaled(Matrix& matrix, int row, int channel, const Eight<Real>& vector,
                           const float (&factor)[8]) {
  float x[8];
  vector.unpack(x);
#pragma unroll
  for (int i = 0; i < 8; ++i) x[i] *= factor[i];
  matrix.set(row, channel, x);
}

// And as they are, where one plane holds them.
template <class Matrix>
__device__ void set_as_is(Matrix& matrix, int row, int channel, const Eight<bf16>& vector) {
  static_assert(Matrix::planes == 1);
  *reinterpret_cast<uint4*>(matrix.at(0, row, channel)) = vector.bits;
}
template <class Matrix>
__device__ void set_as_is(Matrix& matrix, int row, int channel, const Eight<float>& vector) {
  float x[8];
  vector.unpack(x);
  matrix.set(row, channel, x);
}

// By a warp: rows of a tile, or as many numbers of them, come nearer before somebody asks for them.
// Half of the lanes have those of one matrix, half of another one's; at: where this lane's begins,
// of the token threadIdx.x % 16.
template <int numbers = head_size, class Real>
__device__ void bring_rows_near(const Real* one, const Real* other, int64_t at) {
  const Real* const row = (threadIdx.x % 32 < 16 ? one : other) + at;
#pragma unroll
  for (int i = 0; i < numbers; i += 128 / sizeof(Real)) bring_line_near(row + i);
}
__device__ inline void bring_decays_near(const float* w, int64_t at) {
  bring_rows_near<head_size / 2>(w, w + head_size / 2, at);
}

// Decays of a tile while its factors are made. A warp writes 16 channels of two tokens, eight
// tokens apart, and reads four of every eight channels of four tokens: so that both find them in
// different banks.
struct MakerDecays {
  alignas(16) float x[tile_tokens][head_size];
  __device__ static int place(int t, int channel) {
    return channel ^ channel / 32 * 4 ^ t / 8 * 16;
  }
  __device__ float& at(int t, int channel) { return x[t][place(t, channel)]; }
  __device__ void read(int t, int channel, float (&to)[8]) const {  // channel: a multiple of 8
    const auto four = [&](int c) { return *reinterpret_cast<const float4*>(&x[t][place(t, c)]); };
    Eight<float>{four(channel), four(channel + 4)}.unpack(to);
  }
};

struct MakerMemory {
  MakerDecays decays;  // W
  alignas(16) float ab[tile_tokens][tile_tokens + 4];
};

// What tokens t of a tile read of what tokens s wrote, if s + later <= t.
template <class Products, class Reads, class Writes>
__device__ Sums meet_earlier(const Reads& reads, const Writes& writes, int later) {
  Products products;
  multiply<Lies::straight, Lies::transposed, head_size>(products, reads, 0, writes, 0);
  Sums sums = products.total();
#pragma unroll
  for (int p = 0; p < 2; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int t = threadIdx.x % 32 / 4 + i / 2 * 8, s = 8 * p + threadIdx.x % 4 * 2 + i % 2;
      if (s + later > t) sums.c[p][i] = 0;
    }
  return sums;
}

// Column `column` of (I - N)^-1 for the strictly lower part N of `lower`. What four entries add to
// all later ones is added as soon as they are there, so that the way from one to the next is short.
__device__ inline void invert_column(const float (&lower)[tile_tokens][tile_tokens + 4], int column,
                                     float (&x)[tile_tokens]) {
#pragma unroll
  for (int t = 0; t < tile_tokens; ++t) x[t] = t == column ? 1.0f : 0.0f;
#pragma unroll
  for (int s = 0; s < tile_tokens; s += 4)
#pragma unroll
    for (int t = s + 1; t < tile_tokens; ++t) {
      const float4 n = *reinterpret_cast<const float4*>(&lower[t][s]);
      x[t] = fmaf(n.x, x[s], x[t]);
      if (s + 1 < t) x[t] = fmaf(n.y, x[s + 1], x[t]);
      if (s + 2 < t) x[t] = fmaf(n.z, x[s + 2], x[t]);
      if (s + 3 < t) x[t] = fmaf(n.w, x[s + 3], x[t]);
    }
}

// What `makers` threads do forward for the owners of the state: while those use one tile's factors,
// they make the next one's out of what has come, and ask for what comes after. groups: of makers in
// a block, each with tiles of its own.
template <class Real, int groups = 1>
struct FactorMaker {
  using Factors = ForwardFactors<Real>;
  MakerMemory& memory;
  int thread;                // of the makers
  int token, part;           // of the vectors: this thread's token and the first of its 8 channels
  int channel, first_token;  // of the decay: a channel, and the first of 8 tokens
  int64_t step;              // from token to token
  const Real *a, *r, *b, *k, *v;
  const float* w;
  Eight<Real> next_a, next_r, next_b, next_k, next_v;
  float next_w[8];

  __device__ FactorMaker(MakerMemory& memory, const DeltaRule<Real>& op, int first_thread)
      : memory(memory), thread(threadIdx.x - first_thread) {
    token = thread / 8, part = thread % 8 * 8;
    channel = thread / 32 * 16 + thread % 16, first_token = thread % 32 / 16 * 8;
    step = op.heads * head_size;
  }
  __device__ void turn_to(const DeltaRule<Real>& op, int64_t sequence, int64_t head) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    const int64_t mine = first + token * step + part;
    a = op.a + mine, r = op.r + mine, b = op.b + mine, k = op.k + mine, v = op.v + mine;
    w = op.w + first + first_token * step + channel;
  }

  __device__ void ask_for(int64_t tile, int count) {
    const int64_t at = tile * tile_tokens * step;
    const auto load = [&] {
      next_a.load(a + at), next_r.load(r + at), next_b.load(b + at), next_v.load(v + at);
      next_k.load(k + at);
    };
    if (count == tile_tokens) {  // nearly always, and a tile waits for this
      load();
#pragma unroll
      for (int t = 0; t < 8; ++t) next_w[t] = __ldg(w + at + t * step);
      return;
    }
    next_a = next_r = next_b = next_k = next_v = Eight<Real>();
    if (token < count) load();
#pragma unroll
    for (int t = 0; t < 8; ++t) next_w[t] = first_token + t < count ? __ldg(w + at + t * step) : 1;
  }

  __device__ static void meet() {
    if constexpr (groups == 1)
      meet_at<1, makers>();
    else  // behind the numbers of Exchange
      meet_at<makers>(2 + owner_warps / 2 + threadIdx.x / makers % groups);
  }

  // The vectors of what has come, with the decay taken out. The tile's decay is times `factor`.
  __device__ void make_vectors(Factors& to, const Factor& factor = Factor()) {
    float decay = 1;
#pragma unroll
    for (int t = 0; t < 8; ++t) next_w[t] = decay *= next_w[t];
    const float before = __shfl_up_sync(~0u, decay, 16);
#pragma unroll
    for (int t = 0; t < 8; ++t)
      memory.decays.at(first_token + t, channel) = first_token ? before * next_w[t] : next_w[t];
    if (first_token) to.decay[channel] = factor.times(before * decay);
    meet();
    float own[8], earlier[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    memory.decays.read(token, part, own);
    if (token) memory.decays.read(token - 1, part, earlier);
    set_scaled(to.a, token, part, next_a, earlier);
    set_scaled(to.r, token, part, next_r, own);
#pragma unroll
    for (int i = 0; i < 8; ++i) own[i] = reciprocal(own[i]);
    set_scaled(to.b, token, part, next_b, own);
    set_scaled(to.k, token, part, next_k, own);
    float x[8];
    next_v.unpack(x);
    to.given.set(token, part, x);
    meet();
  }

  // The products of the vectors. Each warp has one of them; the first one's is the longest, and two
  // groups have it on different schedulers. Two warps share the code of theirs: with a copy for
  // each, and SANE's ways for large entries, it would not fit the instruction cache.
  template <Order order = Order::rows>
  __device__ void make_products(Factors& to) {
    const int warp = groups == 1 ? thread / 32 : (thread / 32 + threadIdx.x / makers * 2) % 4;
    const bool of_k = warp >= 2;
    const auto& writes = of_k ? to.k : to.b;
    const auto met_by = [&](const auto& reads, int later) {
      return meet_earlier<StateSums<Real, 2, order>>(reads, writes, later);
    };
    const auto keep = [](auto& matrix, const Sums& sums) {
      sums.each([&](int t, int s, float x, float next) {
        const float two[2] = {x, next};
        matrix.set(t, s, two);
      });
    };
    if (warp % 2) {
      keep(of_k ? to.rk : to.rb, met_by(to.r, 0));
    } else {
      const Sums sums = met_by(to.a, 1);
      if (of_k)
        keep(to.ak, sums);
      else
        invert(sums, to);
    }
    meet();  // compute-sanitizer's racecheck takes what follows for a race otherwise
  }
  __device__ void invert(const Sums& ab, Factors& to) {
    ab.each([&](int t, int s, float x, float next) {
      *reinterpret_cast<float2*>(&memory.ab[t][s]) = {x, next};
    });
    __syncwarp();
    float x[tile_tokens], half[tile_tokens / 2];
    const int column = thread % 16;
    invert_column(memory.ab, column, x);
    const bool second = thread % 32 >= 16;
#pragma unroll
    for (int t = 0; t < 8; ++t) half[t] = second ? x[t + 8] : x[t];
    to.inverse.set(column, second ? 8 : 0, half);
  }
};

// A matrix in global memory that is read and written as left factors, 16 x 16 numbers a warp: those
// of a lane lie side by side, so that a warp's are 512 bytes.
template <int planes, int rows, int columns>
struct LaneMatrix {
  uint4 of[planes][rows / 16][columns / 16][32];
  template <int given>  // planes, of which the first are kept
  __device__ void set(int row, int column, const Left<given>& x) {
#pragma unroll
    for (int p = 0; p < planes; ++p)
      of[p][row / 16][column / 16][threadIdx.x % 32] =
          make_uint4(x.of[p][0], x.of[p][1], x.of[p][2], x.of[p][3]);
  }
};

// A state between kernels: of 16 rows and 8 columns, what a lane has of them as Sums have theirs
// lies side by side, so that a warp reads and writes 512 bytes.
struct KeptState {
  float4 of[head_size / 16][head_size / 8][32];
};
// Behind all states: how far their neutralizations left entries, the bits of all. Only chain_pass
// says so, and only blocks that have whole heads ask for it on the way back, which few heads, that
// chunk_pass is for, never have (blocks_share_heads). Of no states: what nobody uses.
static_assert(sizeof(KeptState) + sizeof(uint32_t) == kept_state_numbers * sizeof(float));
template <class Number>
__device__ auto kept_reach(Number* states, int64_t count) {
  using Word = std::conditional_t<std::is_const_v<Number>, const uint32_t, uint32_t>;
  return reinterpret_cast<Word*>(states + count * state_entries);
}
// Where a head's neutralizations are: what they left, tile by tile, and their taus.
struct HeadEnds {
  const KeptState* left;
  const uint32_t* reach;
  const float* tau;
  int64_t step;  // to the next tau
  int tiles, chunks;
};
// And what the way back through the states leaves of a tile: D and M = (I - AB)^-1.
template <class Real>
struct KeptGradient {
  LaneMatrix<result_planes<Real>, head_size, head_size> D;
  LaneMatrix<result_planes<Real>, tile_tokens, tile_tokens> M;
};
static_assert(sizeof(KeptGradient<bf16>) == kept_gradient_numbers<bf16> * sizeof(bf16));

// 16 rows and 32 columns, or all 64, of a state in the lanes of a warp: piece n has the columns 8 n
// to 8 n + 7 of them, each as Sums have theirs. groups: of 16 rows, that a block has.
template <int columns, int groups = head_size / shared_rows>
struct OwnColumns {
  static constexpr int pieces = columns / 8, sharers = head_size / columns;
  float x[pieces][4];

  // Which of the columns: of the warps that a scheduler has, every fourth, one has the left half
  // and the next one the right half, which has more to do.
  __device__ static int half() { return (threadIdx.x / 32 + threadIdx.x / 128) % sharers; }
  __device__ static int first_row() {
    const int first_group = groups < head_size / shared_rows ? blockIdx.y * groups : 0;
    return (first_group + threadIdx.x / 32 / sharers % groups) * shared_rows;
  }
  __device__ static int first_column() { return half() * columns; }
  __device__ static const float2* place(const float* state) {
    const int lane = threadIdx.x % 32;
    return reinterpret_cast<const float2*>(state + (first_row() + lane / 4) * head_size +
                                           first_column() + lane % 4 * 2);
  }
  __device__ void load(const float* state) {
    const float2* const at = place(state);
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      const float2 upper = __ldg(at + 4 * n), lower = __ldg(at + 4 * n + 8 * head_size / 2);
      x[n][0] = upper.x, x[n][1] = upper.y, x[n][2] = lower.x, x[n][3] = lower.y;
    }
  }
  __device__ void store(float* state) const {
    float2* const at = const_cast<float2*>(place(state));
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      at[4 * n] = {x[n][0], x[n][1]};
      at[4 * n + 8 * head_size / 2] = {x[n][2], x[n][3]};
    }
  }
  // Likewise, where states are kept between kernels: from this lane's numbers of the first piece
  // on.
  __device__ static float4* place(KeptState& state) {
    return &state.of[first_row() / 16][first_column() / 8][threadIdx.x % 32];
  }
  __device__ void load(const KeptState& state) {
    const float4* const at = place(const_cast<KeptState&>(state));
#pragma unroll
    for (int n = 0; n < pieces; ++n) {
      const float4 four = __ldg(at + 32 * n);
      x[n][0] = four.x, x[n][1] = four.y, x[n][2] = four.z, x[n][3] = four.w;
    }
  }
  __device__ void store(float4* state) const {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
      state[32 * n] = make_float4(x[n][0], x[n][1], x[n][2], x[n][3]);
  }
  __device__ void clear() {
    each([](float& entry) { entry = 0; });
  }
  template <class Map>  // map(entry)
  __device__ void each(Map&& map) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(x[n][i]);
  }
  template <class Map>  // map(entry) -> entry
  __device__ void set(const OwnColumns& from, Map&& map) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n][i] = map(from.x[n][i]);
  }
  __device__ void copy(int n, const OwnColumns& from) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[n][i] = from.x[n][i];
  }
  __device__ void set_scaled(const OwnColumns& from, float factor) {
#pragma unroll
    for (int n = 0; n < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) find_here(x[n][i] = from.x[n][i] * factor);
  }
  __device__ void move_up(int count) {  // pieces
#pragma unroll
    for (int n = 0; n + count < pieces; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n][i] = x[n + count][i];
  }
  __device__ static float2 of_columns(int n, const float* all) {
    return *reinterpret_cast<const float2*>(all + first_column() + 8 * n + threadIdx.x % 4 * 2);
  }
  __device__ void scale(int n, const float* factors) {  // of all columns
    const float2 f = of_columns(n, factors);
    x[n][0] *= f.x, x[n][1] *= f.y, x[n][2] *= f.x, x[n][3] *= f.y;
  }
  __device__ void scale(int n, const float4& factors) {  // of all entries
    x[n][0] *= factors.x, x[n][1] *= factors.y, x[n][2] *= factors.z, x[n][3] *= factors.w;
  }
  __device__ void add(int n, const Sums& sums) {  // to two pieces
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[n + p][i] += sums.c[p][i];
  }
};

using OwnPart = OwnColumns<own_columns>;

// What the two warps of some rows say to each other.
struct Exchange {
  float4 sums[owner_warps][2][32];

  __device__ void say(int what, const float (&x)[4]) {
    sums[threadIdx.x / 32][what][threadIdx.x % 32] = make_float4(x[0], x[1], x[2], x[3]);
  }
  __device__ void add_other(int what, float (&x)[4]) const {
    const float4 other = sums[(threadIdx.x / 32) ^ 1][what][threadIdx.x % 32];
    x[0] += other.x, x[1] += other.y, x[2] += other.z, x[3] += other.w;
  }
  __device__ void say(const Sums& x) { say(0, x.c[0]), say(1, x.c[1]); }
  __device__ void add_other(Sums& x) const { add_other(0, x.c[0]), add_other(1, x.c[1]); }
  __device__ static void meet() { meet_at<64>(2 + threadIdx.x / 64); }
};

}  // namespace deltasane::kernel::cuda
