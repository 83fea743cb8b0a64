// One block per head, tile after tile, on the tensor cores: eight warps own the state, four more make
// the factors of the next tile (cuda_operands.cuh).
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
  Real y[2][tile_tokens][head_size + 8];
};
template <class Real>
struct ReverseMemory {
  ReverseFactors<Real> tiles[2];
  MakerMemory making;
  Exchange z;
};

__device__ void neutralize(OwnPart& S, const Threshold& threshold) {
  float largest = 0;
  S.each([&](float& x) { largest = fmaxf(largest, fabsf(x)); });
  if (__all_sync(~0u, threshold.small(largest)))
    S.each([&](float& x) { x = threshold.of_small(x); });
  else
    S.each([&](float& x) { x = threshold(x); });
}

// resident: so many blocks share a multiprocessor, which bounds the registers of a thread.
template <class Real, int resident>
__global__ __launch_bounds__(threads, resident) void forward_kernel(TokenPass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ForwardMemory<Real>*>(raw_memory);
  const int tiles = int((op.time + tile_tokens - 1) / tile_tokens);
  const auto length = [&](int tile) { return int(min(op.time - tile * tile_tokens, int64_t(16))); };
  if (threadIdx.x >= owners) {
    FactorMaker<Real, ForwardFactors<Real>> maker(memory.making, op, op.v, sequence, head);
    Real* const y = op.y ? op.y + (maker.given - op.v) : nullptr;
    const auto write_y = [&](int tile) {
      if (!y || tile < 0 || maker.token >= length(tile)) return;
      Eight<Real> eight;
      eight.read(&memory.y[tile % 2][maker.token][maker.part]);
      eight.write(y + tile * tile_tokens * maker.step);
    };
    maker.ask_for(0, length(0));
    for (int tile = 0; tile < tiles; ++tile) {
      ForwardFactors<Real>& factors = memory.tiles[tile % 2];
      maker.make_vectors(factors);
      if (tile + 1 < tiles) maker.ask_for(tile + 1, length(tile + 1));
      maker.make_products(factors);
      __syncthreads();  // these are ready; the tile before has been read, and its y is there
      write_y(tile - 1);
    }
    __syncthreads();
    write_y(tiles - 1);
    return;
  }
  OwnPart S;
  if (pass.initial)
    S.load(pass.initial + int64_t(blockIdx.x) * state_entries);
  else
    S.clear();
  float* states =
      pass.states ? pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries : nullptr;
  const int chunks = int(op.time / tile_tokens);
  const float* tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  const int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  const bool left_half = OwnPart::half() == 0;
  constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  for (int tile = 0; tile < tiles; ++tile) {
    float threshold = 0;
    if (tau && tile < chunks) threshold = __ldg(tau + tile * op.heads);
    if (states) S.store(states), states += state_entries;
    __syncthreads();
    const ForwardFactors<Real>& factors = memory.tiles[tile % 2];
    Left<exact> v;
    v.template load<Lies::transposed>(factors.given, row, 0);
    Sums sa, y;  // rows of the state, columns of tokens
    {
      SplitSums<2> sa_sums;
      SplitSums<1> y_sums;
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
      if (left_half) {
        Right<state_planes> ak;
        ak.template load<Lies::transposed>(factors.ak, 0, 0);
        sa_sums.add(v, ak);
      } else {
        Right<result> rk;
        rk.template load<Lies::transposed>(factors.rk, 0, 0);
        y_sums.template add_main<result>(v, rk);
      }
      sa = sa_sums.total(), y = y_sums.total();
    }
    memory.sa.say(sa);
    if (left_half) memory.read.say(y);
    Exchange::meet();
    memory.sa.add_other(sa);
    Right<state_planes> right;
    Left<state_planes> left(sa);
    {
      SplitSums<2> sums;
      right.template load<Lies::transposed>(factors.inverse, 0, 0);
      sums.add(left, right);
      left = Left<state_planes>(sums.total());
    }
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      SplitSums<1> more;
      right.template load<Lies::straight>(factors.b, 0, first_column + 8 * n);
      more.add(left, right);
      right.template load<Lies::straight>(factors.k, 0, first_column + 8 * n);
      more.add(v, right);
      S.add(n, more.total());
      S.scale(n, factors.decay), S.scale(n + 1, factors.decay);
    }
    if (threshold > 0) neutralize(S, Threshold(threshold));
    if (!left_half && op.y) {
      memory.read.add_other(y);
      SplitSums<1> sums;
      sums.large = y;
      Right<result> rb;
      rb.template load<Lies::transposed>(factors.rb, 0, 0);
      sums.template add_main<result>(left, rb);
      Real(*const to)[head_size + 8] = memory.y[tile % 2];
      sums.total().each([&](int i, int t, float x, float next) {
        store_one(&to[t][row + i], x);
        store_one(&to[t + 1][row + i], next);
      });
    }
  }
  __syncthreads();
  if (states) S.store(states);
  if (pass.final_state) S.store(pass.final_state + int64_t(blockIdx.x) * state_entries);
}

template <class Real, int resident>
__global__ __launch_bounds__(threads, resident) void reverse_kernel(ReversePass<Real> pass) {
  const DeltaRule<Real>& op = pass.op;
  const int64_t sequence = blockIdx.x / op.heads, head = blockIdx.x % op.heads;
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<ReverseMemory<Real>*>(raw_memory);
  const int tiles = int((op.time + tile_tokens - 1) / tile_tokens);
  if (threadIdx.x >= owners) {
    FactorMaker<Real, ReverseFactors<Real>> maker(memory.making, op, pass.gradient.dy, sequence,
                                                  head);
    maker.ask_for(tiles - 1, int(op.time - (tiles - 1) * tile_tokens));
    for (int tile = tiles - 1; tile >= 0; --tile) {
      ReverseFactors<Real>& factors = memory.tiles[tile % 2];
      maker.make_vectors(factors);
      if (tile > 0) maker.ask_for(tile - 1, tile_tokens);
      maker.make_products(factors);
      __syncthreads();
    }
    return;
  }
  const int chunks = int(op.time / tile_tokens);
  const float* const states = pass.states + int64_t(blockIdx.x) * (tiles + 1) * state_entries;
  float* const dstates = pass.dstates + int64_t(blockIdx.x) * tiles * state_entries;
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  const int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  constexpr int exact = exact_planes<Real>;
  OwnPart D, after;
  if (pass.gradient.dfinal)
    D.load(pass.gradient.dfinal + int64_t(blockIdx.x) * state_entries);
  else
    D.clear();
  if (tau) after.load(states + tiles * int64_t(state_entries));
  for (int tile = tiles - 1; tile >= 0; --tile) {
    D.store(dstates + tile * int64_t(state_entries));
    if (tau && tile < chunks) {  // through the neutralization: sech^2 u = 1 - tanh^2 u
      const float inverse = 1.0f / __ldg(tau + tile * op.heads);
#pragma unroll
      for (int n = 0; n < OwnPart::pieces; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float x = after.x[n][i] * inverse;
          D.x[n][i] = fmaf(-x * x, D.x[n][i], D.x[n][i]);
        }
    }
    __syncthreads();
    if (tau) after.load(states + tile * int64_t(state_entries));  // for the tile before
    const ReverseFactors<Real>& factors = memory.tiles[tile % 2];
    Left<exact> dy;
    dy.template load<Lies::transposed>(factors.given, row, 0);
    Right<state_planes> right;
    Sums z;
    {
      SplitSums<2> sums;
#pragma unroll
      for (int n = 0; n < OwnPart::pieces; n += 2) {
        D.scale(n, factors.decay), D.scale(n + 1, factors.decay);
        const Left<state_planes> part(D.x[n], D.x[n + 1]);
        right.template load<Lies::transposed>(factors.b, first_column + 8 * n, 0);
        sums.add(part, right);
      }
      if (OwnPart::half() == 0) {
        right.template load<Lies::straight>(factors.rb, 0, 0);
        sums.add(dy, right);
      }
      z = sums.total();
    }
    memory.z.say(z);
    Exchange::meet();
    memory.z.add_other(z);
    Left<state_planes> left(z);
    {
      SplitSums<2> sums;
      right.template load<Lies::straight>(factors.inverse, 0, 0);
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
  if (pass.gradient.dinitial)
    D.store(pass.gradient.dinitial + int64_t(blockIdx.x) * state_entries);
}

// So many heads that blocks must share multiprocessors.
bool crowded(int64_t heads, const Gpu& gpu) { return heads > gpu.facts().multiprocessors; }

}  // namespace

template <class Real>
void chain_pass(const TokenPass<Real>& pass, const Gpu& gpu) {
  const int64_t heads = pass.op.batch * pass.op.heads;
  const bool share = exact_planes<Real> == 1 && crowded(heads, gpu);
  launch(share ? forward_kernel<Real, 2> : forward_kernel<Real, 1>,
         Grid{dim3(unsigned(heads)), dim3(threads), sizeof(ForwardMemory<Real>)}, gpu, pass);
}

template <class Real>
void reverse_pass(const ReversePass<Real>& pass, const Gpu& gpu) {
  const int64_t heads = pass.op.batch * pass.op.heads;
  const bool share = exact_planes<Real> == 1 && crowded(heads, gpu);
  launch(share ? reverse_kernel<Real, 2> : reverse_kernel<Real, 1>,
         Grid{dim3(unsigned(heads)), dim3(threads), sizeof(ReverseMemory<Real>)}, gpu, pass);
}

template void chain_pass(const TokenPass<float>&, const Gpu&);
template void chain_pass(const TokenPass<bf16>&, const Gpu&);
template void reverse_pass(const ReversePass<float>&, const Gpu&);
template void reverse_pass(const ReversePass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
