#include "kernel/matmul/few_rows/product.h"

#include "kernel/matmul/few_rows/inputs.cuh"
#include "kernel/matmul/few_rows/tile_sums.cuh"
#include "kernel/matmul/few_rows/weight_ring.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

static_assert(most_rows_of_few == most_few_rows);

// What a token's place gets comes from a later place or from x: in order, nothing is lost.
__device__ void keep_inputs(const KeptInputs& kept, int64_t rows, int64_t block, int64_t blocks) {
  const int64_t all = rows * kept.channels;
  for (int64_t i = block * few_threads + threadIdx.x; i < all; i += blocks * few_threads) {
    const int64_t row = i / kept.channels, c = i % kept.channels;
    float* const place = kept.states[row] + kept.state_at + c;
    for (int64_t j = 0; j + 2 < kept.taps; ++j)
      place[j * kept.channels] = place[(j + 1) * kept.channels];
    place[(kept.taps - 2) * kept.channels] = kept.x[row * kept.step + c];
  }
}

// Tiles of a block whose sums are added up together; of a half of the rows.
template <int N>
constexpr int tiles_together = N <= 2 ? 8 : 16 / N;

// What a block has in shared memory after its weights: inputs of a window (slots, step), scales (N, heads),
// parts of the rows' squares (N, warps), sums (buffers, tiles, halves, slots, warps, rows).
template <class Weight, int N>
struct BlockMemory {
  using Sums = TileSums<Weight, N>;
  int staged = 0;  // columns
  int heads = 0, tiles = 0, buffers = 1;  // tiles: of a batch, of all halves

  __host__ __device__ int step() const { return staged + Sums::padding; }
  __host__ __device__ int tile_sums() const { return Sums::slots * few_warps * tile_rows; }
  __host__ __device__ int batch_sums() const { return tiles * tile_sums(); }
  __host__ __device__ size_t inputs() const {
    return size_t(Sums::slots * step()) * sizeof(typename Sums::Staged);
  }
  size_t bytes() const {
    return inputs() +
           size_t(N * (heads + few_warps) + buffers * batch_sums()) * sizeof(float);
  }
};

// N rows of inputs at most. The last `keepers` blocks have no weights: they keep the inputs of a
// convolution, beside the others.
template <class Weight, int N>
__global__ void __launch_bounds__(few_threads, 2)
    multiply_tiles(const __grid_constant__ FewRowsProduct<Weight> p,
                   const __grid_constant__ TilePlan<Weight> plan,
                   const __grid_constant__ BlockMemory<Weight, N> memory, Scale when, bool aligned,
                   int keepers, int places) {
  using Ring = WeightRing<Weight>;
  using Sums = TileSums<Weight, N>;
  extern __shared__ float4 dynamic_shared[];
  trigger_dependent_launch();
  if (int(blockIdx.x) >= plan.blocks) {
    grid_dependency_synchronize();
    return keep_inputs(p.kept, p.rows, int(blockIdx.x) - plan.blocks, keepers);
  }
  uint4* const weights = reinterpret_cast<uint4*>(dynamic_shared);
  auto* const inputs =
      reinterpret_cast<typename Sums::Staged*>(weights + places * Ring::place_step);
  float* const scales = reinterpret_cast<float*>(reinterpret_cast<char*>(inputs) + memory.inputs());
  float* const parts = scales + N * memory.heads;
  float* const all_sums = parts + N * few_warps;
  Ring ring(plan, places, weights);
  if (p.input.weight)
    for (int64_t i = threadIdx.x * 32; i + 32 <= p.input.size; i += few_threads * 32)
      prefetch_l2_line(p.input.weight + i);
  grid_dependency_synchronize();

  if (when == Scale::before)
    aligned ? find_scales<true, Weight, N>(p, memory.heads, scales, parts)
            : find_scales<false, Weight, N>(p, memory.heads, scales, parts);
  const auto stage = [&](int from) {
    float squares[N] = {};
    with_input_kind(p.input.kind, aligned, [&]<FewRowsInputKind kind, bool all_aligned>() {
      stage_inputs<kind, all_aligned, N>(p, when, memory.heads, scales, from, memory.staged, squares,
                                         [&](int n, int i, float4 x) {
                                           Sums::put(inputs, memory.step(), n, i, x);
                                         });
    });
    if (when == Scale::after) store_parts(squares, parts);
    __syncthreads();
  };
  // The sum that this thread stores, if it does: `lanes` threads add it up.
  constexpr int lanes = few_threads / (N * tiles_together<N> * tile_rows);
  const int place = int(threadIdx.x) / lanes, own_row = place % tile_rows,
            own_tile = place / tile_rows % tiles_together<N>,
            n = place / (tile_rows * tiles_together<N>);
  const int all_tiles = (plan.tiles - int(blockIdx.x) + plan.blocks - 1) / plan.blocks;
  typename Sums::Inputs own;
  int set_from = -1;
  float scale = 1;
#pragma unroll 1
  for (int done = 0, number = 0; done < all_tiles; done += plan.batch, ++number) {
    const int tiles = min(plan.batch, all_tiles - done);
    const int row = (int(blockIdx.x) + (done + own_tile) * plan.blocks) * tile_rows + own_row;
    const bool has_sum = own_tile < tiles && n < p.rows && row < plan.rows,
               stores = has_sum && int(threadIdx.x) % lanes == 0;
    const int64_t at = int64_t(n) * plan.rows + row;
    const float before = p.add && stores ? p.out[at] : 0.0f;
    float* const sums = all_sums + number % memory.buffers * memory.batch_sums();
#pragma unroll 1
    for (int window = 0; window < plan.columns; window += plan.window) {
      if (number == 0 || plan.window < plan.columns) {
        if (number > 0 || window > 0) __syncthreads();
        stage(window), set_from = -1;
        if (when == Scale::after && n < p.rows) scale = scale_of(p.input, sum_of_parts(parts, n));
      }
      const int pieces = ring.pieces(window);
      float* mine = sums + Sums::place();
#pragma unroll 1
      for (int tile = 0; tile < tiles * plan.halves; ++tile, mine += memory.tile_sums()) {
        Sums sum;
        int from = ring.first_column(window);
#pragma unroll 1
        for (int i = 0; i < pieces; ++i, from += Ring::column_step) {
          if (from != set_from) own.set(inputs, memory.step(), from - window), set_from = from;
          ring.take([&](int u, const uint4& raw) { sum.multiply(own, u, raw); });
        }
        sum.store(mine, window > 0);
      }
    }
    __syncthreads();
    const auto sum_of_half = [&](int half) {
      const float* const of_tile =
          sums + (own_tile * plan.halves + half) * memory.tile_sums() + own_row;
      float sum = 0;
      if (has_sum)
#pragma unroll
        for (int plane = 0; plane < Sums::planes; ++plane)
#pragma unroll
          for (int w = int(threadIdx.x) % lanes; w < few_warps; w += lanes)
            sum += of_tile[((n * Sums::planes + plane) * few_warps + w) * tile_rows];
#pragma unroll
      for (int far = 1; far < lanes; far *= 2) sum += __shfl_xor_sync(~0u, sum, far);
      return scale * sum;
    };
    float sum = sum_of_half(0);
    if (p.swiglu) sum = activated(GateActivation::silu, sum) * sum_of_half(1);
    if (!stores) continue;
    if (p.narrow_out)
      store_one(p.narrow_out + at, sum);
    else
      p.out[at] = before + sum;
  }
}

}  // namespace

template <class Weight>
void few_rows_product(const FewRowsProduct<Weight>& op, const Gpu& gpu) {
  using Kind = FewRowsInputKind;
  require(op.input.kind != Kind::head_norm || op.input.size % 4 == 0,
          "few_rows_product: expected heads of a multiple of four channels");
  require(
      has_few_rows_product<Weight>(op.columns) && (op.out != nullptr) != (op.narrow_out != nullptr),
      "few_rows_product: expected columns of 16 bytes, and one result");
  require(!op.swiglu || op.outputs % 2 == 0, "few_rows_product: expected two halves for swiglu");
  FewRowsProduct<Weight> p = op;
  const int64_t kept = op.kept.x && op.kept.taps > 1 ? op.rows * op.kept.channels : 0;
  const auto keepers = int((kept + few_threads - 1) / few_threads);
  if (op.input.kind == Kind::norm) p.input.size = op.columns;
  const bool has_norm = op.input.kind == Kind::norm || op.input.kind == Kind::head_norm;
  with_few(op.rows, [&]<int N>() {
    using Ring = WeightRing<Weight>;
    using Sums = TileSums<Weight, N>;
    TilePlan<Weight> plan{op.matrix, int(op.outputs), int(op.columns)};
    if (op.swiglu) plan.halves = 2, plan.rows /= 2;
    plan.tiles = (plan.rows + tile_rows - 1) / tile_rows;
    plan.blocks = std::min(plan.tiles, int(gpu.properties().multiprocessors));
    const int tiles = (plan.tiles + plan.blocks - 1) / plan.blocks;  // of a block
    plan.batch = std::min(tiles, tiles_together<N>);
    constexpr int of_a_column = Sums::slots * int(sizeof(typename Sums::Staged)),
                  most_columns = staged_bytes / of_a_column / Ring::column_step * Ring::column_step;
    BlockMemory<Weight, N> memory;
    memory.staged = std::min(most_columns, (plan.columns + piece_columns<Weight> - 1) /
                                               piece_columns<Weight> * piece_columns<Weight>);
    plan.window = memory.staged;
    memory.heads = has_norm ? int(op.columns / p.input.size) : 0;
    memory.tiles = plan.batch * plan.halves, memory.buffers = tiles > plan.batch ? 2 : 1;
    Scale when = has_norm ? Scale::before : Scale::never;
    if (op.input.kind == Kind::norm && plan.window >= plan.columns) when = Scale::after;
    if (op.input.kind == Kind::head_norm && lanes_have_heads(op.input.size, op.columns))
      when = Scale::with_head;
    const int64_t pieces = (op.columns + Ring::column_step - 1) / Ring::column_step * tiles * plan.halves;
    const int places = Ring::places(pieces, gpu.properties().shared_bytes - memory.bytes());
    prefer_shared_carveout(multiply_tiles<Weight, N>);
    launch_dependent(
        multiply_tiles<Weight, N>,
        {dim3(unsigned(plan.blocks + keepers)), few_threads, Ring::bytes(places) + memory.bytes()},
        gpu, p, plan, memory, when, inputs_are_aligned(p.input), keepers, places);
  });
}

template void few_rows_product(const FewRowsProduct<float>&, const Gpu&);
template void few_rows_product(const FewRowsProduct<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
