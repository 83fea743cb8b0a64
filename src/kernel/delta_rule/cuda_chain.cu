// Forward: one block per head, tile after tile, on the tensor cores: eight warps own the state,
// four more make the factors of the next tile (cuda_operands.cuh).
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
  alignas(16) Real y[2][tile_tokens][head_size + 8];
};
// Of a warp's 16 rows and a tile's tokens, the results: into rows of tokens.
using TokenRow = bf16[head_size + 8];
__device__ void put_results(TokenRow* to, int row, const Sums& y) {
  const int piece = threadIdx.x % 32 / 8, line = threadIdx.x % 8;
  store_matrices<Lies::transposed>(&to[piece / 2 * 8 + line][row + piece % 2 * 8],
                                   {packed(y.c[0][0], y.c[0][1]), packed(y.c[0][2], y.c[0][3]),
                                    packed(y.c[1][0], y.c[1][1]), packed(y.c[1][2], y.c[1][3])});
}
__device__ void put_results(float (*to)[head_size + 8], int row, const Sums& y) {
  y.each([&](int i, int t, float x, float next) { to[t][row + i] = x, to[t + 1][row + i] = next; });
}

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
    FactorMaker<Real> maker(memory.making, op, owners);
    maker.turn_to(op, sequence, head);
    Real* const y = op.y ? op.y + (maker.v - op.v) : nullptr;
    Eight<Real> results;  // on their way from the owners: read at once, written when there is time
    const auto read_y = [&](int tile) {
      results.read(&memory.y[tile % 2][maker.token][maker.part]);
    };
    const auto write_y = [&](int tile) {
      if (y && tile >= 0 && maker.token < length(tile))
        results.write(y + tile * tile_tokens * maker.step);
    };
    maker.ask_for(0, length(0));
    for (int tile = 0; tile < tiles; ++tile) {
      ForwardFactors<Real>& factors = memory.tiles[tile % 2];
      maker.make_vectors(factors);
      write_y(tile - 2);
      if (tile + 1 < tiles) maker.ask_for(tile + 1, length(tile + 1));
      maker.make_products(factors);
      __syncthreads();  // these are ready; the tile before has been read, and its y is there
      if (tile) read_y(tile - 1);
    }
    write_y(tiles - 2);
    __syncthreads();
    read_y(tiles - 1), write_y(tiles - 1);
    return;
  }
  OwnPart S;
  if (op.initial)
    S.load(op.initial + int64_t(blockIdx.x) * state_entries);
  else
    S.clear();
  KeptState* states =
      pass.states ? reinterpret_cast<KeptState*>(pass.states) + int64_t(blockIdx.x) * (tiles + 1)
                  : nullptr;
  const int chunks = int(op.time / tile_tokens);
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  float next_tau = tau && chunks ? __ldg(tau) : 1;
  const int row = OwnPart::first_row(), first_column = OwnPart::first_column();
  const bool left_half = OwnPart::half() == 0;
  constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  for (int tile = 0; tile < tiles; ++tile) {
    if (states) S.store(*states++);
    const Threshold threshold(next_tau);
    if (tau && tile + 1 < chunks) next_tau = __ldg(tau + (tile + 1) * op.heads);
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
      right.template load<Lies::straight>(factors.inverse, 0, 0);
      sums.add(left, right);
      left = Left<state_planes>(sums.total());
    }
    float largest = 0;
#pragma unroll
    for (int n = 0; n < OwnPart::pieces; n += 2) {
      SplitSums<1> more;
      right.template load<Lies::straight>(factors.b, 0, first_column + 8 * n);
      more.add(left, right);
      right.template load<Lies::straight>(factors.k, 0, first_column + 8 * n);
      more.add(v, right);
      S.add(n, more.total());
      S.scale(n, factors.decay), S.scale(n + 1, factors.decay);
      largest = fmaxf(largest, fmaxf(S.largest(n), S.largest(n + 1)));
    }
    if (tau && tile < chunks)
      threshold.choose(largest, [&](auto&& of) { S.each([&](float& x) { x = of(x); }); });
    if (!left_half && op.y) {
      memory.read.add_other(y);
      SplitSums<1> sums;
      sums.large = y;
      Right<result> rb;
      rb.template load<Lies::transposed>(factors.rb, 0, 0);
      sums.template add_main<result>(left, rb);
      put_results(memory.y[tile % 2], row, sums.total());
    }
  }
  __syncthreads();
  if (states) S.store(*states);
  if (op.final_state) S.store(op.final_state + int64_t(blockIdx.x) * state_entries);
}

}  // namespace

template <class Real>
void chain_pass(const ChainPass<Real>& pass, const Gpu& gpu) {
  launch(forward_kernel<Real>,
         Grid{dim3(unsigned(pass.op.batch * pass.op.heads)), dim3(threads),
              sizeof(ForwardMemory<Real>)},
         gpu, pass);
}

template void chain_pass(const ChainPass<float>&, const Gpu&);
template void chain_pass(const ChainPass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
