// One block per head, tile after tile, on the tensor cores: eight warps own the state, four more
// make the factors of the next tile (cuda_operands.cuh).
#include "kernel/cuda_lanes.cuh"
#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = owners + makers;

template <class Real>
struct ForwardMemory {
  ForwardFactors<Real> tiles[2];
  MakerMemory making;
  Exchange sa, read;
};
template <class Real>
struct ReverseMemory {
  ReverseFactors<Real> tiles[2];
  SplitMatrix<result_planes<Real>, head_size, head_size> dstates[2];
  MakerMemory making;
  Exchange z;
  float4 dtau[2][owners / 4];  // the owners' parts of it
};

// What a tile's tokens read, of 16 rows: a warp finishes the results of 8 tokens, and its partner,
// which has the other columns of these rows, those of the other 8.
struct OwnResults {
  float large[4], small[4] = {};

  __device__ static int first_token() { return OwnPart::half() * 8; }
  __device__ OwnResults(const Sums& y, Exchange& exchange) {
    float others[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      large[i] = first_token() ? y.c[1][i] : y.c[0][i];
      others[i] = first_token() ? y.c[0][i] : y.c[1][i];
    }
    exchange.say(0, others);
  }
  template <int kept, int left_planes, int right_planes>
  __device__ void add_main(const Left<left_planes>& x, const HalfRight<right_planes>& y) {
#pragma unroll
    for (int p = 0; p < left_planes; ++p)
#pragma unroll
      for (int q = 0; q < right_planes; ++q)
        if (p + q < kept) multiply_add(p + q == 0 ? large : small, x.of[p], y.of[q][0], y.of[q][1]);
  }
  // Where this thread's go, of rows of `step` numbers, one for each token.
  template <class Real>
  __device__ static Real* place(Real* tile, int64_t step) {
    return tile + own_token() * step + OwnPart::first_row() + threadIdx.x % 32 / 4;
  }
  __device__ static int own_token() { return first_token() + threadIdx.x % 4 * 2; }
  template <class Real>
  __device__ void write(Real* place, int64_t step, int tokens) const {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (own_token() + i % 2 < tokens)
        store_one(place + i % 2 * step + i / 2 * 8, large[i] + small[i]);
  }
};

template <class Real>
__global__ __launch_bounds__(threads, 1) void forward_kernel(ChainPass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ForwardMemory<Real>*>(raw_memory);
  const int tiles = int((op.time + tile_tokens - 1) / tile_tokens);
  const auto length = [&](int tile) {
    return int(min(op.time - tile * tile_tokens, int64_t(tile_tokens)));
  };
  if (threadIdx.x >= owners) {
    FactorMaker<Real, ForwardFactors<Real>> maker(memory.making, op, op.v, sequence, head);
    maker.ask_for(0, length(0));
    for (int tile = 0; tile < tiles; ++tile) {
      ForwardFactors<Real>& factors = memory.tiles[tile % 2];
      maker.make_vectors(factors);
      if (tile + 1 < tiles) maker.ask_for(tile + 1, length(tile + 1));
      maker.make_products(factors);
      __syncthreads();  // these are ready, and the tile before has been read
    }
    return;
  }
  OwnPart S;
  if (op.initial)
    S.load(op.initial + int64_t(blockIdx.x) * state_entries);
  else
    S.clear();
  float* states =
      pass.states ? pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries : nullptr;
  const int chunks = int(op.time / tile_tokens);
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  float next_tau = tau && chunks ? __ldg(tau) : 1;
  const int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  const int64_t step = op.heads * head_size;  // from token to token
  Real* y_place =
      op.y ? OwnResults::place(op.y + sequence * op.time * step + head * head_size, step) : nullptr;
  const bool left_half = OwnPart::half() == 0;
  constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  for (int tile = 0; tile < tiles; ++tile) {
    if (states) S.store(states), states += state_entries;
    const Threshold threshold(next_tau);
    if (tau && tile + 1 < chunks) next_tau = __ldg(tau + (tile + 1) * op.heads);
    __syncthreads();
    const ForwardFactors<Real>& factors = memory.tiles[tile % 2];
    Left<exact> v;
    v.template load<Lies::transposed>(factors.given, row, 0);
    // Products without the state come first: they are there when a sum that waits for it begins.
    Sums sa, y;  // rows of the state, columns of tokens
    {
      SplitSums<2> sa_sums;
      SplitSums<1> y_sums;
      if (left_half) {
        Right<state_planes> ak;
        ak.template load<Lies::transposed>(factors.ak, 0, 0);
        sa_sums.add(v, ak);
      } else {
        Right<result> rk;
        rk.template load<Lies::transposed>(factors.rk, 0, 0);
        y_sums.template add_main<result>(v, rk);
      }
#pragma unroll
      for (int n = 0; n < OwnPart::pieces; n += 2) {
        const Left<state_planes> part(S.x[n], S.x[n + 1]);
        Right<state_planes> a;
        a.template load<Lies::transposed>(factors.a, first_column + 8 * n, 0);
        sa_sums.add(part, a);
        Right<result> r;
        r.template load<Lies::transposed>(factors.r, first_column + 8 * n, 0);
        y_sums.template add_main<result>(part, r);
      }
      sa = sa_sums.total(), y = y_sums.total();
    }
    memory.sa.say(sa);
    OwnResults results(y, memory.read);
    Exchange::meet();
    memory.sa.add_other(sa);
    Right<state_planes> right;
    SplitSums<1> more[OwnPart::pieces / 2];  // what comes to the state
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      right.template load<Lies::straight>(factors.k, 0, first_column + 8 * n);
      more[n / 2].add(v, right);
    }
    Left<state_planes> left(sa);
    {
      SplitSums<2> sums;
      right.template load<Lies::straight>(factors.inverse, 0, 0);
      sums.add(left, right);
      left = Left<state_planes>(sums.total());
    }
    float largest = 0;
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      right.template load<Lies::straight>(factors.b, 0, first_column + 8 * n);
      more[n / 2].add(left, right);
      S.add(n, more[n / 2].total());
      S.scale(n, factors.decay), S.scale(n + 1, factors.decay);
      largest = fmaxf(largest, fmaxf(S.largest(n), S.largest(n + 1)));
    }
    memory.read.add_other(0, results.large);
    HalfRight<result> rb;
    rb.load(factors.rb, 0, OwnResults::first_token());
    results.template add_main<result>(left, rb);  // done when the tanh is
    if (tau && tile < chunks)
      threshold.choose(largest, [&](auto&& of) { S.each([&](float& x) { x = of(x); }); });
    if (y_place) {
      results.write(y_place, step, length(tile));
      y_place += tile_tokens * step;
    }
  }
  if (states) S.store(states);
  if (op.final_state) S.store(op.final_state + int64_t(blockIdx.x) * state_entries);
}

// (tanh u - u sech^2 u) / q for x = tanh u, q = x^2. Small, |x| < 0.6: atanh x = x (1 + q/3 + q^2/5
// + ...), so it is x (2/3 + 2/15 q + 2/35 q^2 + ...), here within 3e-8 before rounding.
constexpr float small_tanh = 0.6f;
__device__ float less_slope_of_small(float x, float q) {
  float p = fmaf(q, 0.031457461f, 0.000996863f);
  p = fmaf(q, p, 0.023760039f);
  p = fmaf(q, p, 0.031265177f);
  p = fmaf(q, p, 0.057173215f);
  p = fmaf(q, p, 0.133332625f);
  p = fmaf(q, p, 0.666666687f);
  return x * p;
}
__device__ float log2_of(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// tanh u - u sech^2 u: u = atanh x by two logarithms, each within 2^-22, of numbers that are not
// quite 0.
__device__ float less_slope(float x, float q) {
  constexpr float almost = 0.99999994f, half_log_of_2 = 0.34657359f;
  const float u = log2_of(fmaf(x, almost, 1.0f)) - log2_of(fmaf(x, -almost, 1.0f));
  return fmaf(u, fmaf(q, half_log_of_2, -half_log_of_2), x);
}

// Through a neutralization, piece by piece: `after` is what it left. D becomes the gradient of what
// it was given, and this thread's part of dtau = sum D (tanh u - u sech^2 u) is added up.
struct Back {
  OwnPart &D, &after;
  float inverse_of_tau, dtau[2] = {};

  __device__ void of_small(int n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = after.x[n][i] * inverse_of_tau, q = x * x;
      float& d = D.x[n][i];
      const float less = d * q;
      dtau[i % 2] = fmaf(less, less_slope_of_small(x, q), dtau[i % 2]);
      d -= less;
    }
  }
  __device__ void of_any(int n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = after.x[n][i] * inverse_of_tau, q = x * x;
      float& d = D.x[n][i];
      dtau[i % 2] = fmaf(d, less_slope(x, q), dtau[i % 2]);
      d = fmaf(-q, d, d);
    }
  }
};

template <class Real>
__global__ __launch_bounds__(threads, 1) void reverse_kernel(ReversePass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ReverseMemory<Real>*>(raw_memory);
  const int tiles = int((op.time + tile_tokens - 1) / tile_tokens);
  constexpr int exact = exact_planes<Real>, kept = result_planes<Real>;
  if (threadIdx.x >= owners) {
    FactorMaker<Real, ReverseFactors<Real>> maker(memory.making, op, pass.gradient.dy, sequence,
                                                  head);
    const int64_t chunks = op.time / tile_tokens;
    const auto write_dtau = [&](int tile) {  // by the last warp, which makes no products
      if (!op.tau || tile >= chunks || maker.thread < makers - 32) return;
      const int lane = maker.thread % 32;
      const float4 x = memory.dtau[tile % 2][lane], y = memory.dtau[tile % 2][lane + 32];
      const float sum = warp_sum(((x.x + x.y) + (x.z + x.w)) + ((y.x + y.y) + (y.z + y.w)));
      if (lane == 0) pass.gradient.dtau[(sequence * chunks + tile) * op.heads + head] = sum;
    };
    const auto write_dstates = [&](int tile) {
      if (tile >= tiles) return;
      constexpr int pieces = head_size / 8;
      const int row = maker.thread / pieces, column = maker.thread % pieces * 8;
      bf16* const to = pass.dstates + (int64_t(blockIdx.x) * tiles + tile) * kept * state_entries +
                       row * head_size + column;
#pragma unroll
      for (int p = 0; p < kept; ++p)
#pragma unroll
        for (int i = 0; i < head_size; i += makers / pieces)
          *reinterpret_cast<uint4*>(to + p * state_entries + i * head_size) =
              *reinterpret_cast<const uint4*>(memory.dstates[tile % 2].at(p, row + i, column));
    };
    maker.ask_for(tiles - 1, int(op.time - (tiles - 1) * tile_tokens));
    for (int tile = tiles - 1; tile >= 0; --tile) {
      ReverseFactors<Real>& factors = memory.tiles[tile % 2];
      maker.make_vectors(factors);
      if (tile > 0) maker.ask_for(tile - 1, tile_tokens);
      maker.make_products(factors);
      __syncthreads();
      write_dstates(tile + 1);
      write_dtau(tile + 1);
    }
    __syncthreads();
    write_dstates(0);
    write_dtau(0);
    return;
  }
  const int chunks = int(op.time / tile_tokens);
  const float* const states = pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries;
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  float next_tau = tau && chunks ? __ldg(tau + (chunks - 1) * op.heads) : 1;
  const int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  OwnPart D, after;
  if (pass.gradient.dfinal)
    D.load(pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries);
  else
    D.clear();
  if (tau) after.load(states + tiles * int64_t(state_entries));
  for (int tile = tiles - 1; tile >= 0; --tile) {
    // The way back through the tanh is found beside products.
    const bool neutralized = tau && tile < chunks;
    Back back{D, after, reciprocal(next_tau)};
    float largest = 0;
    if (neutralized)
#pragma unroll
      for (int n = 0; n < OwnPart::pieces; ++n) largest = fmaxf(largest, after.largest(n));
    const bool small = __all_sync(~0u, largest < small_tanh * next_tau);
    __syncthreads();
    const ReverseFactors<Real>& factors = memory.tiles[tile % 2];
    Left<exact> dy;
    dy.template load<Lies::transposed>(factors.given, row, 0);
    Right<state_planes> right;
    Sums z;
    {
      SplitSums<2> sums;
      const auto read_gradient = [&](auto&& finish) {
#pragma unroll
        for (int n = 0; n < OwnPart::pieces; n += 2) {
          finish(n), finish(n + 1);
          D.scale(n, factors.decay), D.scale(n + 1, factors.decay);
          const Left<state_planes> part(D.x[n], D.x[n + 1]);
          part.store(memory.dstates[tile % 2], row, first_column + 8 * n);
          right.template load<Lies::transposed>(factors.b, first_column + 8 * n, 0);
          sums.add(part, right);
        }
      };
      if (!neutralized)
        read_gradient([](int) {});
      else if (small)
        read_gradient([&](int n) { back.of_small(n); });
      else
        read_gradient([&](int n) { back.of_any(n); });
      if (OwnPart::half() == 0) {
        right.template load<Lies::straight>(factors.rb, 0, 0);
        sums.add(dy, right);
      }
      z = sums.total();
    }
    memory.z.say(z);
    if (neutralized)
      reinterpret_cast<float*>(memory.dtau[tile % 2])[threadIdx.x] = back.dtau[0] + back.dtau[1];
    Exchange::meet();
    if (tau && tile > 0) {  // for the tile before
      after.load(states + tile * int64_t(state_entries));
      next_tau = __ldg(tau + (tile - 1) * op.heads);
    }
    memory.z.add_other(z);
    Left<state_planes> left(z);
    {
      SplitSums<2> sums;
      right.template load<Lies::transposed>(factors.inverse, 0, 0);
      sums.add(left, right);
      left = Left<state_planes>(sums.total());
    }
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      SplitSums<1> more;
      right.template load<Lies::straight>(factors.a, 0, first_column + 8 * n);
      more.add(left, right);
      right.template load<Lies::straight>(factors.r, 0, first_column + 8 * n);
      more.add(dy, right);
      D.add(n, more.total());
    }
  }
  __syncthreads();
  if (pass.gradient.dinitial) D.store(pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries);
}

}  // namespace

template <class Real>
void chain_pass(const ChainPass<Real>& pass, const Gpu& gpu) {
  launch(forward_kernel<Real>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(threads),
              sizeof(ForwardMemory<Real>)},
         gpu, pass);
}

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  launch(reverse_kernel<Real>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(threads),
              sizeof(ReverseMemory<Real>)},
         gpu, pass);
}

template void chain_pass(const ChainPass<float>&, const Gpu&);
template void chain_pass(const ChainPass<bf16>&, const Gpu&);
template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
