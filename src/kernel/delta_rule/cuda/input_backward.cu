// The gradients of a tile's inputs, given its first state S0 and the gradient G of its last one: a
// block per tile, all tiles at once.
//
// In the names of few_heads_forward.cu, with D = G diag(W), the gradient of S0 + SA' B~ + V' K~:
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
// Half of the warps ("readers") have S0, half ("writers") have D. As long as value channels are
// independent, a warp has 16 of them and computes transposes, SA' = (S0 A~' + V' AK') M' or Z' =
// (D B~' + dY' RB) M with M = (I - AB)^-1: there the accumulator of one product is operand A of the
// next. Then it has 16 key channels. Where readers and writers do the same with other matrices they
// share the code: a block runs through all of it once, and would wait for code that does not fit
// into the instruction cache. Only products have a copy for each role, without branches, so that
// loads come before the products that need them.
#include <algorithm>

#include "kernel/delta_rule/cuda/input_backward_results.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <class Real>
constexpr int resident_blocks = exact_planes<Real> == 1 ? 3 : 1;  // on a multiprocessor, at most

template <class Real>
__device__ void add_dtau_parts(const BackwardPass<Real>& pass) {
  const int64_t chunks = pass.op.time / tile_tokens;
  if (!pass.op.tau || blockIdx.x >= chunks) return;
  const int64_t place = (blockIdx.z * chunks + blockIdx.x) * pass.op.heads + blockIdx.y;
  const float4 parts = __ldg(reinterpret_cast<const float4*>(pass.dtau_parts) + place);
  pass.gradient.dtau[place] = (parts.x + parts.y) + (parts.z + parts.w);
}

// With fewer than all columns of the states in shared memory at a time, warps take turns.
template <class Tile>
__device__ void multiply_tokens_in_passes(Tile& tile, typename Tile::Products (&both)[2],
                                          typename Tile::Products& beside) {
  for (int pass = 0; pass < Tile::passes; ++pass) {
    if (pass > 0) {
      typename Tile::RawRows raw;
      typename Tile::StateOperands rows;
      tile.load_rows(raw);
      tile.split_rows(raw, rows);
      __syncthreads();
      tile.store_columns(rows, pass);
      __syncthreads();
    }
    if (tile.own_pass() == pass) tile.multiply_tokens(both, beside);
  }
}

// running: blocks that run at once, on all multiprocessors.
template <class Real, int columns>
__global__ __launch_bounds__(threads, resident_blocks<Real>) void input_backward_kernel(
    BackwardPass<Real> pass, unsigned running) {
  using Tile = TileResults<Real, columns>;
  using Products = typename Tile::Products;
  extern __shared__ float4 dynamic_shared[];
  Tile tile(*reinterpret_cast<typename Tile::Memory*>(dynamic_shared), pass, gridDim.x, blockIdx.x,
            blockIdx.y, blockIdx.z);
  Products sums;    // a reader's S0 A~', or a writer's D B~'
  Products beside;  // a reader's square, or a writer's D K~', dV' and then S0' D
  {
    typename Tile::StateOperands rows;
    {
      typename Tile::Decays w;
      typename Tile::RawRows raw;
      typename Tile::RawInverse raw_inverse;
      typename Tile::OwnVectors vectors;
      tile.load_decays(w);
      tile.load_vectors(vectors);
      tile.load_rows(raw);
      const bool has_inverse = tile.warp == 0;  // it has no square
      if (has_inverse) tile.load_inverse(raw_inverse);
      if (threadIdx.x == threads - 32) tile.prefetch_later_states(running);
      if (threadIdx.x >= threads - 32) tile.prefetch_later_vectors(running);
      if (pass.dtau_parts && threadIdx.x == 0) add_dtau_parts(pass);  // while the loads are pending
      tile.store_decays(w);
      __syncthreads();
      tile.store_vectors(vectors);
      tile.split_rows(raw, rows);
      tile.store_columns(rows, 0);
      if (has_inverse) tile.store_inverse(raw_inverse);
    }
    __syncthreads();
    tile.multiply_state(rows, sums, beside);
  }
  if (tile.reader && tile.own) tile.store_lower(beside);
  __syncthreads();
  tile.solve(sums, beside);
  __syncthreads();
  if (!tile.reader) tile.store_dv(beside);
  Products both[2];
  Accumulator vectors[2], terms[2];
  typename Tile::ChannelSums state_sums = {};
  beside = Products();
  if constexpr (Tile::passes == 1)
    tile.multiply_tokens(both, beside);
  else
    multiply_tokens_in_passes(tile, both, beside);
  tile.read_vectors(vectors);
  if (tile.reader)
    tile.store_pairs(beside);
  else
    tile.sum_states(beside, both, vectors, state_sums);
  __syncthreads();
  tile.add_pairs(both);
  float2 inverse_w[2];
  tile.finish_vectors({both[0].total(), both[1].total()}, vectors, state_sums, terms, inverse_w);
  tile.finish_log_decay(terms, inverse_w);
}

template <class Real, int columns>
using InputBackwardMemory = typename GradientTile<Real, columns>::Memory;

template <int columns, class Real>
void launch_input_backward(const BackwardPass<Real>& pass, const Gpu& gpu) {
  const int64_t tiles = (pass.op.time + tile_tokens - 1) / tile_tokens;
  const int resident =
      std::min(resident_blocks<Real>, int(gpu.properties().shared_bytes /
                                          sizeof(InputBackwardMemory<Real, columns>)));
  launch(input_backward_kernel<Real, columns>,
         Grid{dim3(unsigned(tiles), unsigned(pass.op.heads), unsigned(pass.op.batch)),
              dim3(threads), sizeof(InputBackwardMemory<Real, columns>)},
         gpu, pass, unsigned(gpu.properties().multiprocessors * resident));
}

}  // namespace

template <class Real>
void input_backward(const BackwardPass<Real>& pass, const Gpu& gpu) {
  constexpr int half = head_size / 2;
  static_assert(sizeof(InputBackwardMemory<Real, half>) <= limited_shared_bytes);
  if (sizeof(InputBackwardMemory<Real, head_size>) <= gpu.properties().shared_bytes)
    launch_input_backward<head_size>(pass, gpu);
  else
    launch_input_backward<half>(pass, gpu);
}

template void input_backward(const BackwardPass<float>&, const Gpu&);
template void input_backward(const BackwardPass<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
