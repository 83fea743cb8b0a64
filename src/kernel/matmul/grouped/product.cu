// A warp has a tile of 16 rows and 32 columns on the tensor cores, of 8 columns where there would be
// too few tiles. Where there are many inputs, the warps of a block have a part of them each and add up
// their sums; else each has columns of its own.
//
// A lane loads 16 bytes of a row, 8 inputs, of a and of b alike: which input is which column of a
// fragment does not matter as long as both have the same order. Where all blocks are resident at
// once, all loads of a warp are in flight together; where there are more, those of half as many
// inputs, so that registers are left for a second block.
//
// A lane's eight weights of a quantized b are two times four neighbours, as they lie in its blocks; so
// are its inputs of a then.
#include "kernel/matmul/grouped/product.h"

#include "base/error.h"
#include "kernel/cuda/mma.cuh"
#include "kernel/matmul/grouped/member.cuh"
#include "kernel/matmul/quantized_cuda/octet.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

using namespace grouped;

constexpr int tile_rows = 16;
constexpr int wide = 32, narrow = columns_of_mma;  // columns of a tile
constexpr int64_t many_inputs = 256;  // from there on warps divide them

// A lane's eight inputs of a step: where they begin, and those of a; weights of 8 columns, as loaded and
// as pairs.
struct OfRows {
  static constexpr int apart = 8;
  using Loaded = uint4;
  const Member& m;
  const bf16* b;

  __device__ OfRows(const Member& member, int column, int lane)
      : m(member),
        b(static_cast<const bf16*>(m.b) + int64_t(column + lane / 4) * m.inner + lane % 4 * apart) {
  }
  __device__ void load(int part, int at, Loaded& to) const {
    to = __ldg(reinterpret_cast<const uint4*>(b + int64_t(part * columns_of_mma) * m.inner + at));
  }
  __device__ static uint4 pairs(const Loaded& loaded, int) { return loaded; }
  __device__ static uint4 inputs(const bf16* from) { return *reinterpret_cast<const uint4*>(from); }
};
template <WeightType type>
struct OfBlocks {
  static constexpr int apart = 4;
  using Loaded = QuantizedOctet<type>;
  const typename Loaded::Block* blocks;
  int in_row, lane;

  __device__ OfBlocks(const Member& m, int column, int lane_)
      : in_row(m.inner / (step_inputs * Loaded::parts)), lane(lane_) {
    blocks = static_cast<const typename Loaded::Block*>(m.b) + int64_t(column / q8_rows) * in_row;
  }
  __device__ void load(int part, int at, Loaded& to) const {
    const int step = at / step_inputs;
    to.load(blocks[int64_t(part) * in_row + step / Loaded::parts], step % Loaded::parts, lane);
  }
  __device__ static uint4 pairs(const Loaded& loaded, int lane) { return loaded.weights(lane); }
  __device__ static uint4 inputs(const bf16* from) {
    const uint2 low = *reinterpret_cast<const uint2*>(from);
    const uint2 high = *reinterpret_cast<const uint2*>(from + step_inputs / 2);
    return make_uint4(low.x, low.y, high.x, high.y);
  }
};

// The sums of a tile, of every `stride`-th step from `first` on.
template <int tile_columns>
struct Tile {
  static constexpr int parts = tile_columns / columns_of_mma;
  static_assert(columns_of_mma == q8_rows);
  float c[parts][4] = {};

  template <int steps_at_once, class Weights>
  __device__ void multiply(const Member& m, int64_t rows, int64_t row, int column, int first,
                           int stride) {
    const int lane = int(threadIdx.x) % 32, line = lane / 4, own = lane % 4 * Weights::apart;
    const bf16* const upper = m.a + min(row + line, rows - 1) * m.inner + own;
    const bf16* const lower = m.a + min(row + line + 8, rows - 1) * m.inner + own;
    const Weights weights(m, column, lane);
    const int steps = m.inner / step_inputs;
    uint4 x[steps_at_once][2];
    typename Weights::Loaded y[steps_at_once][parts];
    const auto load_b = [&] {
#pragma unroll
      for (int i = 0; i < steps_at_once; ++i) {
        const int at = (first + i * stride) * step_inputs;
        if (at >= m.inner) continue;
#pragma unroll
        for (int p = 0; p < parts; ++p) weights.load(p, at, y[i][p]);
      }
    };
    load_b();
    grid_dependency_synchronize();  // b is there; a may be the result of the kernel before
#pragma unroll 1
    while (first < steps) {
#pragma unroll
      for (int i = 0; i < steps_at_once; ++i)
        if (const int at = (first + i * stride) * step_inputs; at < m.inner)
          x[i][0] = Weights::inputs(upper + at), x[i][1] = Weights::inputs(lower + at);
#pragma unroll
      for (int i = 0; i < steps_at_once; ++i) {
        if ((first + i * stride) * step_inputs >= m.inner) continue;
        const uint32_t even[4] = {x[i][0].x, x[i][1].x, x[i][0].y, x[i][1].y};
        const uint32_t odd[4] = {x[i][0].z, x[i][1].z, x[i][0].w, x[i][1].w};
#pragma unroll
        for (int p = 0; p < parts; ++p) {
          const uint4 pairs = Weights::pairs(y[i][p], lane);
          mma(c[p], even, pairs.x, pairs.y);
          mma(c[p], odd, pairs.z, pairs.w);
        }
      }
      first += steps_at_once * stride;
      load_b();
    }
  }
  // use(row, column, sum, sum of the next column) of the tile.
  template <class Use>
  __device__ void each(Use use) const {
    const int lane = int(threadIdx.x) % 32, line = lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int p = 0; p < parts; ++p) {
      use(line, p * columns_of_mma + column, c[p][0], c[p][1]);
      use(line + 8, p * columns_of_mma + column, c[p][2], c[p][3]);
    }
  }
};

// The sums of a tile, whatever b is: a block's threads have one of these types.
enum class Matrices { bf16, any };
template <Matrices matrices, int steps_at_once, int tile_columns>
__device__ void multiply(Tile<tile_columns>& tile, const Member& m, int64_t rows, int64_t row,
                         int column, int first, int stride) {
  const auto by = [&]<class Weights>() {
    tile.template multiply<steps_at_once, Weights>(m, rows, row, column, first, stride);
  };
  if constexpr (matrices == Matrices::bf16) return by.template operator()<OfRows>();
  switch (m.type) {
    case WeightType::q8:
      return by.template operator()<OfBlocks<WeightType::q8>>();
    case WeightType::q6_k:
      return by.template operator()<OfBlocks<WeightType::q6_k>>();
    case WeightType::q5_k:
      return by.template operator()<OfBlocks<WeightType::q5_k>>();
    case WeightType::q4_k:
      return by.template operator()<OfBlocks<WeightType::q4_k>>();
    case WeightType::q4:
      return by.template operator()<OfBlocks<WeightType::q4>>();
    default:
      return by.template operator()<OfRows>();
  }
}

template <Matrices matrices, int steps_at_once, int tile_columns>
__global__ void __launch_bounds__(threads, steps_at_once <= 2 ? 2 : 1)
    grouped_products(const __grid_constant__ GroupedLaunch op) {
  trigger_dependent_launch();
  __shared__ float2 part[warps][tile_rows][tile_columns / 2 + 1];
  const Member& m = member_of_block(op);
  const int warp = int(threadIdx.x) / 32, block = int(blockIdx.x) - m.first_block;
  const int64_t row = int64_t(blockIdx.y) * tile_rows;
  Tile<tile_columns> tile;
  if (m.inner < many_inputs) {
    const int column = (block * warps + warp) * tile_columns;
    if (column >= m.columns) return;
    multiply<matrices, steps_at_once>(tile, m, op.rows, row, column, 0, 1);
    tile.each([&](int r, int c, float x, float y) {
      if (row + r < op.rows) store_pair(m, (row + r) * m.columns + column + c, x, y);
    });
    return;
  }
  const int column = block * tile_columns;
  multiply<matrices, steps_at_once>(tile, m, op.rows, row, column, warp, warps);
  tile.each([&](int r, int c, float x, float y) { part[warp][r][c / 2] = {x, y}; });
  __syncthreads();
  static_assert(threads >= tile_rows * tile_columns / 2);
  if (threadIdx.x >= tile_rows * tile_columns / 2) return;
  const int r = int(threadIdx.x) / (tile_columns / 2), c = int(threadIdx.x) % (tile_columns / 2);
  float2 sum{0, 0};
#pragma unroll
  for (int w = 0; w < warps; ++w) sum.x += part[w][r][c].x, sum.y += part[w][r][c].y;
  if (row + r < op.rows) store_pair(m, (row + r) * m.columns + column + 2 * c, sum.x, sum.y);
}

// How many inputs a warp has in flight: by whether all blocks are resident at once.
template <Matrices matrices>
auto kernel_for(bool is_narrow, bool are_resident) {
  return is_narrow      ? grouped_products<matrices, 8, narrow>
         : are_resident ? grouped_products<matrices, 4, wide>
                        : grouped_products<matrices, 2, wide>;
}

int64_t blocks_of(const GroupedProducts::One& one, int tile_columns) {
  const int64_t tiles = one.columns / tile_columns;
  return one.inner < many_inputs ? (tiles + warps - 1) / warps : tiles;
}

int64_t columns_of_blocks(const GpuMatrix<bf16>& b) {
  return b.is_quantized() && is_low_bits(b.type) ? low_bit_columns(b.type) : step_inputs;
}

}  // namespace

void multiply_grouped(const GroupedProducts& op, const Gpu& gpu) {
  require(op.count <= GroupedProducts::most, "at most seven products are grouped");
  if (op.rows == 0 || op.count == 0) return;
  GroupedLaunch launched{.rows = op.rows, .count = op.count, .member = {}};
  const auto rows = unsigned((op.rows + tile_rows - 1) / tile_rows);
  int64_t wide_blocks = 0, blocks = 0;
  for (int i = 0; i < op.count; ++i) wide_blocks += blocks_of(op.one[i], wide);
  const int64_t at_once = gpu.properties().multiprocessors;
  // Narrow tiles are four times as many blocks, of which a multiprocessor has one at a time. Where more
  // than one tile of rows reads the weights, all of them are to be resident.
  const bool is_narrow = (rows == 1 ? 2 : wide / narrow) * wide_blocks * rows <= at_once;
  bool all_are_bf16 = true;
  for (int i = 0; i < op.count; ++i) {
    const auto& one = op.one[i];
    require(one.columns % wide == 0 && one.inner % columns_of_blocks(one.b) == 0 && one.inner > 0 &&
                (one.out == nullptr) != (one.float_out == nullptr) && (one.float_out || !one.add),
            "grouped products have multiples of 32 columns and inputs, and one result");
    launched.member[i] = member_of(one, blocks);
    all_are_bf16 = all_are_bf16 && !one.b.is_quantized();
    blocks += blocks_of(one, is_narrow ? narrow : wide);
  }
  const bool are_resident = wide_blocks * rows <= at_once;
  const auto kernel = all_are_bf16 ? kernel_for<Matrices::bf16>(is_narrow, are_resident)
                                   : kernel_for<Matrices::any>(is_narrow, are_resident);
  const Grid grid{dim3(unsigned(blocks), rows), threads};
  if (op.overlaps)
    launch_dependent(kernel, grid, gpu, launched);
  else
    launch(kernel, grid, gpu, launched);
}

}  // namespace deltasane::kernel::cuda
