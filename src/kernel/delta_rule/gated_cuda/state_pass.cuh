// What forward and backward over the states share: which rows of which head a block has, what its
// warps do, and the launch.
#pragma once

#include "base/choose.h"
#include "kernel/delta_rule/gated_cuda/blocked_matrix.cuh"
#include "kernel/delta_rule/gated_cuda/state_fragment.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {

struct HeadRows {
  const GatedPass& pass;
  Tiles tiles;
  int64_t sequence, head, of_head;  // of_head: of all sequences' heads
  int first_row, all_tiles;         // of the block; of the longest sequence
  const float* taus;                // of the head; null: no SANE
  int ended;                        // tiles that end a chunk

  __device__ HeadRows(const GatedPass& p, int64_t which, int first, int all)
      : pass(p),
        tiles(p.op, which / p.op.heads),
        sequence(which / p.op.heads),
        head(which % p.op.heads),
        of_head(which),
        first_row(first),
        all_tiles(all),
        taus(p.op.tau ? p.op.tau + chunk(0) : nullptr),
        ended((tiles.offset + tiles.tokens) / tile_size) {}
  __device__ bool neutralized(int tile) const { return taus && tile >= 0 && tile < ended; }
  __device__ int64_t chunk(int tile) const {  // of this head, in tau
    return (sequence * chunk_count(pass.op) + tile) * pass.op.heads + head;
  }
  __device__ float tau(int tile) const {  // 0: no SANE
    return neutralized(tile) ? __ldg(taus + tile * pass.op.heads) : 0.0f;
  }
  // Of a tile's E or dV, whose rows are value channels: saved for the inputs' gradients.
  __device__ void save_rows(bf16* to, int tile, int row, const FragmentA<gated_planes>& x) const {
    const int64_t plane = pass.op.values * tile_size;
    const int64_t from = (of_head * all_tiles + tile) * gated_planes * plane;
#pragma unroll
    for (int p = 0; p < gated_planes; ++p)
      blocked(to, from + p * plane, tile_size).store(x.plane[p], row, 0);
  }
};

namespace {  // each file has its own shared memory

// Of the block's head.
template <class Block>
__device__ ReadyTiles ready_tiles(const Block& block) {
  const uint32_t* const ready = block.pass.progress.ready;
  if (!Block::terms_beside || !ready) return {};
  return {ready + block.of_head * block.all_tiles, block.tiles.count()};
}

// Block: HeadRows of one direction, with Memory, Terms, Division, carry(group, warp) or carry_rows(group,
// loader), write(group), values(), tile_of(i) and copy_saved(stage, tile); in_step: see TileLoader;
// terms_beside: whether the kernel may run beside the one that makes the terms.
template <class Block>
__global__ __launch_bounds__(Block::Division::threads, Block::Division::resident) void state_kernel(
    const __grid_constant__ GatedPass pass, int all_tiles) {
  extern __shared__ float4 dynamic_shared[];
  auto& memory = hoist_address(*reinterpret_cast<typename Block::Memory*>(dynamic_shared));
  using Division = typename Block::Division;
  const GatedRule& op = pass.op;
  const int row_blocks = int(op.values) / Division::rows, warp = threadIdx.x / 32;
  Block block{
      HeadRows(pass, blockIdx.x / row_blocks, blockIdx.x % row_blocks * Division::rows, all_tiles),
      memory};
  if (threadIdx.x == 0) memory.init();
  __syncthreads();
  using Terms = typename Block::Terms;
  const Rows key = key_rows(op, block.sequence, block.head),
             value = head_rows(op, block.sequence, block.head, op.values);
  using Queue = std::remove_reference_t<decltype(memory.queue)>;
  TileLoader<32 * Division::loader_warps, Queue, Terms> loader{
      memory.queue,
      ready_tiles<Block>(block),
      static_cast<const Terms*>(pass.terms) + block.of_head * all_tiles,
      op.k + key.first,
      op.r + key.first,
      block.values() + value.first + block.first_row,
      key.step,
      value.step,
      block.tiles};
  if constexpr (Division::split == 1) {
    return block.carry_rows(warp, loader);
  } else {
    if (warp < Division::state_warps)
      return block.carry(warp / Division::split, warp % Division::split);
    if (warp < Division::state_warps + Division::writers)
      return block.write(warp - Division::state_warps);
  }
  if constexpr (Block::in_step)
    loader.template run_in_step<Division>(block.tiles.count(), block);
  else
    loader.run(block.tiles.count(), block);
  // The next kernel in the stream starts when this one has ended, so that of the terms must have too.
  if constexpr (Block::terms_beside) grid_dependency_synchronize();
}

template <class Block>
void launch_states(const GatedPass& pass, const Gpu& gpu) {
  const GatedRule& op = pass.op;
  using Division = typename Block::Division;
  const size_t shared = sizeof(typename Block::Memory);
  expect_shared(shared, gpu);
  const Grid grid{unsigned(op.batch * op.heads * op.values / Division::rows),
                  unsigned(Division::threads), shared};
  if (!Block::terms_beside || !pass.progress.ready)
    return launch(state_kernel<Block>, grid, gpu, pass, int(tile_count(op)));
  prefer_shared_carveout(state_kernel<Block>);
  launch_dependent(state_kernel<Block>, grid, gpu, pass, int(tile_count(op)));
}
// Block<decay, division> for the operator's rule, sizes and number of heads.
template <template <Decay, class> class Block>
void launch_states(const GatedPass& pass, const Gpu& gpu) {
  const bool many = many_heads(pass.op, gpu);
  choose<64, 96, 128, 256>(pass.op.keys, "key channels per head", [&]<int keys>() {
    choose<0, 1>(pass.op.rule == Rule::kda, "decays", [&]<int channels>() {
      constexpr Decay decay = channels ? Decay::per_channel : Decay::per_head;
      many ? launch_states<Block<decay, ManyHeads<keys>>>(pass, gpu)
           : launch_states<Block<decay, FewHeads<keys>>>(pass, gpu);
    });
  });
}

}  // namespace
}  // namespace deltasane::kernel::cuda
