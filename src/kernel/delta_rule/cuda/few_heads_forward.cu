// Forward for few heads: what does not depend on the state for many tiles at once, and beside that
// a short sequential pass.
//
// With the rows of A~ R~ B~ K~ V the a~ r~ b~ k~ v of a tile's 16 tokens (tile.cuh), its first
// state S0, SA the rows T_t-1 a~_t, and AB AK RB RK the lower parts of A~ B~' and so on (AB and AK
// without the diagonal):
//
//     SA = A' S0' + U                        A' = M A~        U  = M AK V        M = (I - AB)^-1
//     Y  = R' S0' + Y0                       R' = R~ + RB A'  Y0 = RB U + RK V
//     S  = (S0 + SA' B~ + V' K~) diag(W)
//
// All but SA, Y and S do not depend on S0. Rows of S0 are independent, so 16 of them are a block of
// the sequential kernel; each of its warps has 16 columns.
//
// The sequential kernel is the second of two (few_heads_carry.cuh) and may start when every block
// of the first (few_heads_terms.cuh) has started: it waits only for terms of running blocks,
// which wait for no other block.
#include <algorithm>

#include "base/error.h"
#include "kernel/delta_rule/cuda/few_heads_carry.cuh"
#include "kernel/delta_rule/cuda/few_heads_terms.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int64_t max_tiles = int64_t{1} << 30;

}  // namespace

template <class Real>
int64_t few_heads_scratch_floats(int64_t batch, int64_t heads, int64_t tiles) {
  const int64_t count = batch * heads * tiles;
  return count * int64_t(sizeof(TileTerms<Real>) / sizeof(float)) + TileProgress::words(count);
}

template <class Real>
uint64_t few_heads_shared_bytes() {
  return std::max(sizeof(TermsMemory<Real>), sizeof(CarryMemory<Real>));
}

template <class Real>
void few_heads_forward(const DeltaRule<Real>& op, int64_t tiles, float* scratch, float* final_state,
                       const Gpu& gpu) {
  const int64_t heads = op.batch * op.heads, count = heads * tiles;
  require(count <= max_tiles, "delta_rule for few heads: expected at most 2^30 tiles");
  auto* const all = reinterpret_cast<TileTerms<Real>*>(scratch);
  auto* const words = reinterpret_cast<uint32_t*>(all + count);
  zero_on_gpu(words, uint64_t(TileProgress::words(count)) * sizeof(uint32_t), gpu);
  const TileProgress progress(words);
  const int64_t blocks = std::min(count, int64_t{terms_beside} * gpu.properties().multiprocessors);
  prefer_shared_carveout(terms_kernel<Real>), prefer_shared_carveout(carry_kernel<Real>);
  launch(terms_kernel<Real>,
         Grid{dim3(unsigned(blocks)), dim3(producer_threads), sizeof(TermsMemory<Real>)}, gpu, op,
         int(tiles), all, progress);
  launch_dependent(
      carry_kernel<Real>,
      Grid{dim3(unsigned(heads * row_blocks)), dim3(carry_threads), sizeof(CarryMemory<Real>)}, gpu,
      op, int(tiles), all, progress.ready, final_state);
}

template uint64_t few_heads_shared_bytes<float>();
template uint64_t few_heads_shared_bytes<bf16>();
template int64_t few_heads_scratch_floats<float>(int64_t, int64_t, int64_t);
template int64_t few_heads_scratch_floats<bf16>(int64_t, int64_t, int64_t);
template void few_heads_forward(const DeltaRule<float>&, int64_t, float*, float*, const Gpu&);
template void few_heads_forward(const DeltaRule<bf16>&, int64_t, float*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
