// A block has 32 columns of b and 32 rows of a on the tensor cores, its warps a part of the inputs
// each. Weights come through shared memory, where a thread reads what it has copied itself: copies begin
// before a is there, and need no registers, so that blocks of the next kernel fit beside these and copy
// theirs. Inputs of a lane are those of grouped/product.cu, and so is the order of a sum's terms.
#include <algorithm>

#include "base/error.h"
#include "kernel/cuda/async_copy.cuh"
#include "kernel/cuda/mma.cuh"
#include "kernel/matmul/grouped/member.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace grouped;

constexpr int columns_of_block = 32, parts = columns_of_block / columns_of_mma;
constexpr int tile_rows = 16, row_tiles = 2, rows_of_block = row_tiles * tile_rows;
// Steps of a warp in shared memory at most: with all of them 96 KiB of a block, of which two fit.
constexpr int most_places = 6;
constexpr int place_loads = parts * 32, place_bytes = warps * place_loads * int(sizeof(uint4));

__global__ void __launch_bounds__(threads, 2)
    tall_products(const __grid_constant__ GroupedLaunch op, int splits, int places) {
  extern __shared__ float4 dynamic_shared[];
  trigger_dependent_launch();
  const Member& m = member_of_block(op);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, line = lane / 4;
  const int block = int(blockIdx.x) - m.first_block, split = block % splits;
  const int column = block / splits * columns_of_block, own = lane % 4 * 8;
  const int all_steps = m.inner / step_inputs, end = all_steps * (split + 1) / splits;
  int step = all_steps * split / splits + warp, copied = step;

  uint4* const ring = reinterpret_cast<uint4*>(dynamic_shared) + warp * places * place_loads + lane;
  const bf16* const b =
      static_cast<const bf16*>(m.b) + int64_t(column + line) * m.inner + own;
  const uint64_t policy = evict_first_policy();
  int to = 0;
  const auto copy_next = [&] {  // also where nothing is left: groups of copies are counted
    if (copied < end) {
#pragma unroll
      for (int p = 0; p < parts; ++p)
        copy_async(ring + to * place_loads + p * 32,
                   b + int64_t(p * columns_of_mma) * m.inner + copied * step_inputs, true, policy);
      copied += warps;
      if (++to == places) to = 0;
    }
    commit_group();
  };
#pragma unroll 1
  for (int i = 0; i < most_places; ++i)
    if (i < places)
      copy_next();
    else
      commit_group();

  const int64_t row = int64_t(blockIdx.y) * rows_of_block;
  const int last = int(op.rows - row) - 1;
  const bf16* const a = m.a + row * m.inner + own;
  int place[row_tiles][2];
#pragma unroll
  for (int r = 0; r < row_tiles; ++r)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      place[r][half] = min(r * tile_rows + half * 8 + line, last) * m.inner;
  float c[row_tiles][parts][4] = {};
  grid_dependency_synchronize();  // b is there; a may be the result of the kernel before
  int from = 0;
#pragma unroll 1
  for (; step < end; step += warps) {
    uint4 x[row_tiles][2];
#pragma unroll
    for (int r = 0; r < row_tiles; ++r)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        x[r][half] = *reinterpret_cast<const uint4*>(a + place[r][half] + step * step_inputs);
    wait_group<most_places - 1>();
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      const uint4 y = ring[from * place_loads + p * 32];
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
        const uint32_t even[4] = {x[r][0].x, x[r][1].x, x[r][0].y, x[r][1].y};
        mma(c[r][p], even, y.x, y.y);
      }
#pragma unroll
      for (int r = 0; r < row_tiles; ++r) {
        const uint32_t odd[4] = {x[r][0].z, x[r][1].z, x[r][0].w, x[r][1].w};
        mma(c[r][p], odd, y.z, y.w);
      }
    }
    if (++from == places) from = 0;
    copy_next();
  }
  __syncthreads();  // the ring has been read

  constexpr int fragments = row_tiles * parts;
  float4* const sums = dynamic_shared;  // (warp, row tile, part, lane)
#pragma unroll
  for (int r = 0; r < row_tiles; ++r)
#pragma unroll
    for (int p = 0; p < parts; ++p)
      sums[(warp * fragments + r * parts + p) * 32 + lane] =
          make_float4(c[r][p][0], c[r][p][1], c[r][p][2], c[r][p][3]);
  __syncthreads();
  const int64_t first = split * op.rows;
#pragma unroll
  for (int i = warp; i < fragments; i += warps) {
    float4 sum{0, 0, 0, 0};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
      const float4 one = sums[(w * fragments + i) * 32 + lane];
      sum.x += one.x, sum.y += one.y, sum.z += one.z, sum.w += one.w;
    }
    const int64_t upper = row + i / parts * tile_rows + line;
    const int at = column + i % parts * columns_of_mma + lane % 4 * 2;
    if (upper < op.rows) store_pair(m, (first + upper) * m.columns + at, sum.x, sum.y);
    if (upper + 8 < op.rows) store_pair(m, (first + upper + 8) * m.columns + at, sum.z, sum.w);
  }
}

}  // namespace

void multiply_tall(const GroupedProducts& op, int splits, const Gpu& gpu) {
  require(op.count <= GroupedProducts::most, "at most seven products are grouped");
  if (op.rows == 0 || op.count == 0) return;
  GroupedLaunch launched{.rows = op.rows, .count = op.count, .member = {}};
  int64_t blocks = 0, steps = 1;
  for (int i = 0; i < op.count; ++i) {
    const auto& one = op.one[i];
    require(one.columns % columns_of_block == 0 && one.inner % step_inputs == 0 && one.inner > 0 &&
                !one.b.is_quantized() && (one.out == nullptr) != (one.float_out == nullptr) &&
                (one.float_out || !one.add) &&
                (splits == 1 || (one.float_out && !one.add && !one.activation)),
            "grouped products have multiples of 32 columns and inputs, and one result");
    launched.member[i] = member_of(one, blocks);
    blocks += one.columns / columns_of_block * splits;
    const int64_t of_split = (one.inner / step_inputs + splits - 1) / splits;
    steps = std::max(steps, (of_split + warps - 1) / warps);
  }
  const int places = int(std::min<int64_t>(steps, most_places));
  const int sums = row_tiles * parts * warps * 32 * int(sizeof(float4));
  const int64_t rows = (op.rows + rows_of_block - 1) / rows_of_block;
  const Grid grid{dim3(unsigned(blocks), unsigned(rows)), threads,
                  size_t(std::max(places * place_bytes, sums))};
  prefer_shared_carveout(tall_products);
  if (op.overlaps)
    launch_dependent(tall_products, grid, gpu, launched, splits, places);
  else
    launch(tall_products, grid, gpu, launched, splits, places);
}

}  // namespace deltasane::kernel::cuda
