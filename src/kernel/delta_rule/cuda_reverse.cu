// The way back through the states, from the last tile to the first, on the tensor cores: one block
// per head. Each 16 rows of the gradient of the state have a warp that owns them and one that makes
// SANE's slopes for it, a tile ahead; four warps more make the factors of tiles to come
// (cuda_operands.cuh). Few heads have a block for each 16 rows, where warps are in each other's way
// less.
#include "kernel/cuda_lanes.cuh"
#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// The threads of a block that has so many groups of 16 rows.
constexpr int all_groups = head_size / shared_rows;
constexpr int vector_makers = 64, product_makers = 64;
template <int groups>
struct Roles {
  static constexpr int owners = 32 * groups, slope_makers = owners;
  static constexpr int first_vector_maker = owners;
  static constexpr int first_product_maker = first_vector_maker + vector_makers;
  static constexpr int first_slope_maker = first_product_maker + product_makers;
  static constexpr int threads = first_slope_maker + slope_makers;
};
template <int groups>
using OwnRows = OwnColumns<head_size, groups>;

// For each owner and piece of its rows: what the gradient before a neutralization is of the one
// after it, times the decay, and what that of tau is of it.
template <int groups>
struct Slopes {
  static constexpr int pieces = OwnRows<groups>::pieces, owners = Roles<groups>::owners;
  float4 of_state[pieces][owners], of_tau[pieces][owners];
};
template <class Real, int groups>
struct ReverseMemory {
  // While the owners are at one tile, the products and slopes of the next and the vectors of the
  // one after it are made.
  ReverseFactors<Real> tiles[3];
  Slopes<groups> slopes[2];
  DecayMatrix decays;  // W
  alignas(16) float ab[tile_tokens][tile_tokens + 4];
  float dtau[2][Roles<groups>::owners];  // the owners' parts of it
};

// Makes the vectors of a tile out of what has come, and asks for what comes after.
template <class Real>
struct VectorMaker {
  static constexpr int own_tokens = tile_tokens * head_size / 8 / vector_makers;
  static_assert(vector_makers == head_size);  // each has the decays of a channel
  struct Vectors {
    Eight<Real> a, r, b, dy;
  };
  DecayMatrix& decays;
  int thread, part;  // of the vectors: the first of this thread's 8 channels
  int64_t step;      // from token to token
  const Real *a, *r, *b, *dy;
  const float* w;
  Vectors next[own_tokens];
  float next_w[tile_tokens];

  __device__ VectorMaker(DecayMatrix& decays, const ReversePass<Real>& pass, int thread)
      : decays(decays), thread(thread), part(thread % 8 * 8) {
    const DeltaRule<Real>& op = pass.op;
    step = op.heads * head_size;
    const int64_t first =
        (blockIdx.x / op.heads * op.time * op.heads + blockIdx.x % op.heads) * head_size;
    const int64_t mine = first + token(0) * step + part;
    a = op.a + mine, r = op.r + mine, b = op.b + mine, dy = pass.gradient.dy + mine;
    w = op.w + first + thread;
  }
  __device__ int token(int i) const { return thread / 8 + i * (vector_makers / 8); }

  __device__ void ask_for(int64_t tile, int count) {
    const int64_t first = tile * tile_tokens * step;
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) {
      const int64_t at = first + i * (vector_makers / 8) * step;
      Vectors& x = next[i];
      x = Vectors();
      if (token(i) < count)
        x.a.load(a + at), x.r.load(r + at), x.b.load(b + at), x.dy.load(dy + at);
    }
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) next_w[t] = t < count ? __ldg(w + first + t * step) : 1;
  }

  __device__ void read_decays(int t, float (&x)[8]) const {
    const float4 low = *reinterpret_cast<const float4*>(decays.at(t, part));
    const float4 high = *reinterpret_cast<const float4*>(decays.at(t, part + 4));
    x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
    x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
  }
  // next_tile: the one to ask for as soon as there are registers, or -1.
  __device__ void make(ReverseFactors<Real>& to, int next_tile) {
    float decay = 1;
#pragma unroll
    for (int t = 0; t < tile_tokens; ++t) *decays.at(t, thread) = decay *= next_w[t];
    to.decay[thread] = decay;
    float a_here[own_tokens][8], r_here[own_tokens][8], b_here[own_tokens][8];
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) {
      next[i].a.unpack(a_here[i]), next[i].r.unpack(r_here[i]), next[i].b.unpack(b_here[i]);
      float x[8];
      next[i].dy.unpack(x);
      to.given.set(token(i), part, x);
    }
    if (next_tile >= 0) ask_for(next_tile, tile_tokens);
    meet_at<1, vector_makers>();
#pragma unroll
    for (int i = 0; i < own_tokens; ++i) {
      const int t = token(i);
      float own[8], earlier[8] = {1, 1, 1, 1, 1, 1, 1, 1};
      read_decays(t, own);
      if (t) read_decays(t - 1, earlier);
      const auto put = [&](auto& matrix, float(&x)[8], const float(&factor)[8]) {
#pragma unroll
        for (int c = 0; c < 8; ++c) x[c] *= factor[c];
        matrix.set(t, part, x);
      };
      put(to.a, a_here[i], earlier);
      put(to.r, r_here[i], own);
#pragma unroll
      for (int c = 0; c < 8; ++c) own[c] = reciprocal(own[c]);
      put(to.b, b_here[i], own);
    }
  }
};

template <class Real>
__device__ KeptGradient<Real>& kept_gradient(const ReversePass<Real>& pass, int tiles, int tile) {
  return reinterpret_cast<KeptGradient<Real>*>(pass.dstates)[int64_t(blockIdx.x) * tiles + tile];
}

// What tokens t of a tile read of what tokens s wrote, if s + later <= t: use(t, s, x and the
// next).
template <class Reads, class Writes, class Use>
__device__ void meet_earlier(const Reads& reads, const Writes& writes, int later, Use&& use) {
  SplitSums<2> sums;
  multiply<Lies::straight, Lies::transposed, head_size>(sums, reads, 0, writes, 0);
  sums.total().each([&](int t, int s, float x, float y) {
    const float lower[2] = {s + later <= t ? x : 0.0f, s + 1 + later <= t ? y : 0.0f};
    use(t, s, lower);
  });
}
template <class Real>
__device__ void make_inverse(ReverseFactors<Real>& to, float (&ab)[tile_tokens][tile_tokens + 4],
                             KeptGradient<Real>& kept) {
  meet_earlier(to.a, to.b, 1, [&](int t, int s, const float(&x)[2]) {
    *reinterpret_cast<float2*>(&ab[t][s]) = {x[0], x[1]};
  });
  __syncwarp();
  float x[tile_tokens];
  const int column = threadIdx.x % 16;
  const bool second = threadIdx.x % 32 >= 16;
  invert_column(ab, column, x);
#pragma unroll
  for (int t = 0; t < tile_tokens / 2; ++t)
    to.inverse.set(second ? t + 8 : t, column, second ? x[t + 8] : x[t]);
  __syncwarp();
  Left<state_planes> made;
  made.template load<Lies::straight>(to.inverse, 0, 0);
  kept.M.set(0, 0, made);
}

// tanh u - u sech^2 u for x = tanh u, q = x^2. Small, |x| < 0.6: atanh x = x (1 + q/3 + q^2/5 +
// ...), so it is x q (2/3 + 2/15 q + 2/35 q^2 + ...), here within 3e-8 before rounding.
constexpr float small_tanh = 0.6f;
__device__ float less_slope_of_small(float x, float q) {
  float p = fmaf(q, 0.031457461f, 0.000996863f);
  p = fmaf(q, p, 0.023760039f);
  p = fmaf(q, p, 0.031265177f);
  p = fmaf(q, p, 0.057173215f);
  p = fmaf(q, p, 0.133332625f);
  p = fmaf(q, p, 0.666666687f);
  return x * (q * p);
}
// Any: u = atanh x by two logarithms, each within 2^-22, of numbers that are not quite 0.
__device__ float less_slope(float x, float q) {
  constexpr float almost = 0.99999994f, half_log_of_2 = 0.34657359f;
  const float u = log2_of(fmaf(x, almost, 1.0f)) - log2_of(fmaf(x, -almost, 1.0f));
  return fmaf(u, fmaf(q, half_log_of_2, -half_log_of_2), x);
}

// The slopes of an owner's pieces from `first` on; tanh: of what a tile's neutralization left of
// them, by tau.
template <int groups, int count>
__device__ void make_slopes(const float4 (&tanh)[count], int first, const float* decay,
                            Slopes<groups>& to) {
  const int owner = threadIdx.x - Roles<groups>::first_slope_maker;
  float largest = 0;
#pragma unroll
  for (int n = 0; n < count; ++n)
    largest = fmaxf(largest, fmaxf(fmaxf(fabsf(tanh[n].x), fabsf(tanh[n].y)),
                                   fmaxf(fabsf(tanh[n].z), fabsf(tanh[n].w))));
  const auto make = [&](auto&& of_tau) {
#pragma unroll
    for (int n = 0; n < count; ++n) {
      const float2 w = OwnRows<groups>::of_columns(first + n, decay);
      const float4 x = tanh[n], q{x.x * x.x, x.y * x.y, x.z * x.z, x.w * x.w};
      to.of_state[first + n][owner] = {fmaf(-x.x, x.x, 1.0f) * w.x, fmaf(-x.y, x.y, 1.0f) * w.y,
                                       fmaf(-x.z, x.z, 1.0f) * w.x, fmaf(-x.w, x.w, 1.0f) * w.y};
      to.of_tau[first + n][owner] = {of_tau(x.x, q.x), of_tau(x.y, q.y), of_tau(x.z, q.z),
                                     of_tau(x.w, q.w)};
    }
  };
  if (__all_sync(~0u, largest < small_tanh))
    make(less_slope_of_small);
  else
    make(less_slope);
}

// The sum of the owners' parts, by one warp.
template <int owners>
__device__ void write_dtau(float* to, const float (&parts)[owners]) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < owners; i += 32) sum += parts[i + threadIdx.x % 32];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) *to = sum;
}

// Between one barrier of the block and the next: the vectors of a tile, the products and slopes of
// the one after it, and the way back through the one after that.
template <class Real, int groups>
__device__ void make_vectors(const ReversePass<Real>& pass, ReverseMemory<Real, groups>& memory,
                             int tiles) {
  VectorMaker<Real> maker(memory.decays, pass, threadIdx.x - Roles<groups>::first_vector_maker);
  maker.ask_for(tiles - 1, int(pass.op.time - (tiles - 1) * tile_tokens));
  for (int tile = tiles - 1; tile >= -2; --tile) {
    if (tile >= 0) maker.make(memory.tiles[tile % 3], tile - 1);
    __syncthreads();
  }
}
template <class Real, int groups>
__device__ void make_products(const ReversePass<Real>& pass, ReverseMemory<Real, groups>& memory,
                              int tiles) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t chunks = op.time / tile_tokens;
  constexpr int sharers = all_groups / groups;  // of a head
  float* const dtau =
      (sharers > 1 ? pass.dtau_parts : pass.gradient.dtau) +
      (blockIdx.x / op.heads * chunks * op.heads + blockIdx.x % op.heads) * sharers + blockIdx.y;
  const auto write_dtau_of = [&](int tile) {
    if (op.tau && tile < chunks)
      write_dtau(dtau + tile * op.heads * sharers, memory.dtau[tile % 2]);
  };
  const bool first_warp = threadIdx.x < Roles<groups>::first_product_maker + 32;
  for (int tile = tiles; tile >= -1; --tile) {
    if (tile >= 0 && tile < tiles) {
      ReverseFactors<Real>& factors = memory.tiles[tile % 3];
      if (first_warp)
        make_inverse(factors, memory.ab, kept_gradient(pass, tiles, tile));
      else
        meet_earlier(factors.r, factors.b, 0,
                     [&](int t, int s, const float(&x)[2]) { factors.rb.set(t, s, x); });
    }
    if (!first_warp && tile + 2 < tiles) write_dtau_of(tile + 2);
    __syncthreads();
  }
  if (!first_warp) write_dtau_of(0);
}

// By rounds of a few pieces, of which those after the next are asked for: the code of all roles
// together has to stay in the instruction cache, so the pieces of a tile are not unrolled.
template <class Real, int groups>
__device__ void make_slopes(const ReversePass<Real>& pass, ReverseMemory<Real, groups>& memory,
                            int tiles) {
  using OwnRows = OwnRows<groups>;
  constexpr int at_once = 2;
  struct Round {
    float4 piece[at_once] = {};
  };
  const DeltaRule<Real>& op = pass.op;
  const int chunks = op.tau ? int(op.time / tile_tokens) : 0;
  const float* const tau =
      op.tau + blockIdx.x / op.heads * chunks * op.heads + blockIdx.x % op.heads;
  const auto* const states =
      reinterpret_cast<const KeptState*>(pass.states) + int64_t(blockIdx.x) * (tiles + 1);
  int asked_state = chunks, asked_piece = 0;  // from the last one back
  const auto ask = [&] {
    Round round;
    if (asked_state == 0) return round;
#pragma unroll
    for (int n = 0; n < at_once; ++n)
      round.piece[n] = OwnRows::piece_of(states[asked_state], asked_piece + n);
    asked_piece += at_once;
    if (asked_piece == OwnRows::pieces) asked_piece = 0, --asked_state;
    return round;
  };
  Round next = ask(), after_next = ask();
  float tau_here = chunks ? __ldg(tau + (chunks - 1) * op.heads) : 1;
  for (int tile = tiles; tile >= -1; --tile) {
    if (tile >= 0 && tile < chunks) {
      const float inverse = reciprocal(tau_here);
      if (tile > 0) tau_here = __ldg(tau + (tile - 1) * op.heads);
#pragma unroll 1
      for (int first = 0; first < OwnRows::pieces; first += at_once) {
        Round now = next;
        next = after_next, after_next = ask();
#pragma unroll
        for (float4& x : now.piece) x.x *= inverse, x.y *= inverse, x.z *= inverse, x.w *= inverse;
        make_slopes(now.piece, first, memory.tiles[tile % 3].decay, memory.slopes[tile % 2]);
      }
    }
    __syncthreads();
  }
}

template <class Real, int groups>
__device__ void go_back(const ReversePass<Real>& pass, ReverseMemory<Real, groups>& memory,
                        int tiles) {
  using OwnRows = OwnRows<groups>;
  const DeltaRule<Real>& op = pass.op;
  const int chunks = op.tau ? int(op.time / tile_tokens) : 0;
  const int row = OwnRows::first_row();
  OwnRows D;
  if (pass.gradient.dfinal)
    D.load(pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries);
  else
    D.clear();
  __syncthreads();
  for (int tile = tiles - 1; tile >= 0; --tile) {
    __syncthreads();
    const ReverseFactors<Real>& factors = memory.tiles[tile % 3];
    KeptGradient<Real>& kept = kept_gradient(pass, tiles, tile);
    Left<exact_planes<Real>> dy;
    dy.template load<Lies::transposed>(factors.given, row, 0);
    Right<state_planes> right;
    SplitSums<1> more[OwnRows::pieces / 2];  // of the tile's first state, besides D
    Sums z;
    {
      SplitSums<2> sums;
      const auto read_gradient = [&](auto&& scale) {
#pragma unroll
        for (int n = 0; n < OwnRows::pieces; n += 2) {
          scale(n), scale(n + 1);
          const Left<state_planes> part(D.x[n], D.x[n + 1]);
          kept.D.set(row, 8 * n, part);
          right.template load<Lies::transposed>(factors.b, 8 * n, 0);
          sums.add(part, right);
        }
      };
      if (tile < chunks) {
        float dtau[4] = {};
        read_gradient([&](int n) {
          const float4 slope = memory.slopes[tile % 2].of_state[n][threadIdx.x];
          const float4 of_tau = memory.slopes[tile % 2].of_tau[n][threadIdx.x];
          float(&d)[4] = D.x[n];
          dtau[0] = fmaf(d[0], of_tau.x, dtau[0]), dtau[1] = fmaf(d[1], of_tau.y, dtau[1]);
          dtau[2] = fmaf(d[2], of_tau.z, dtau[2]), dtau[3] = fmaf(d[3], of_tau.w, dtau[3]);
          d[0] *= slope.x, d[1] *= slope.y, d[2] *= slope.z, d[3] *= slope.w;
        });
        memory.dtau[tile % 2][threadIdx.x] = (dtau[0] + dtau[1]) + (dtau[2] + dtau[3]);
      } else {
        read_gradient([&](int n) { D.scale(n, factors.decay); });
      }
      right.template load<Lies::straight>(factors.rb, 0, 0);
      sums.add(dy, right);
#pragma unroll
      for (int n = 0; n < OwnRows::pieces; n += 2) {
        right.template load<Lies::straight>(factors.r, 0, 8 * n);
        more[n / 2].add(dy, right);
      }
      z = sums.total();
    }
    Left<state_planes> left(z);
    {
      SplitSums<2> sums;
      right.template load<Lies::straight>(factors.inverse, 0, 0);
      sums.add(left, right);
      left = Left<state_planes>(sums.total());
    }
#pragma unroll
    for (int n = 0; n < OwnRows::pieces; n += 2) {
      right.template load<Lies::straight>(factors.a, 0, 8 * n);
      more[n / 2].add(left, right);
      D.add(n, more[n / 2].total());
    }
  }
  __syncthreads();
  if (pass.gradient.dinitial) D.store(pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries);
}

template <class Real, int groups>
__global__ __launch_bounds__(Roles<groups>::threads,
                             1) void reverse_kernel(ReversePass<Real> pass) {
  using Roles = Roles<groups>;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ReverseMemory<Real, groups>*>(raw_memory);
  const int tiles = int((pass.op.time + tile_tokens - 1) / tile_tokens);
  if (threadIdx.x < Roles::owners)
    go_back(pass, memory, tiles);
  else if (threadIdx.x < Roles::first_product_maker)
    make_vectors(pass, memory, tiles);
  else if (threadIdx.x < Roles::first_slope_maker)
    make_products(pass, memory, tiles);
  else
    make_slopes(pass, memory, tiles);
}

template <int groups, class Real>
void launch_reverse(const ReversePass<Real>& pass, const Gpu& gpu) {
  launch(reverse_kernel<Real, groups>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads), all_groups / groups),
              dim3(Roles<groups>::threads), sizeof(ReverseMemory<Real, groups>)},
         gpu, pass);
}

}  // namespace

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  if (pass.dtau_parts)
    launch_reverse<1>(pass, gpu);
  else
    launch_reverse<all_groups>(pass, gpu);
}

template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
