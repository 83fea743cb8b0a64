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
  KeptState* states =
      pass.states ? reinterpret_cast<KeptState*>(pass.states) + int64_t(blockIdx.x) * (tiles + 1)
                  : nullptr;
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
    if (states) S.store(*states++);
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
