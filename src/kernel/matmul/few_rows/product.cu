#include "kernel/matmul/few_rows/product.h"

#include "base/choose.h"
#include "kernel/matmul/few_rows/inputs.cuh"
#include "kernel/matmul/few_rows/tile_sums.cuh"
#include "kernel/matmul/few_rows/weight_ring.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// What a token's place gets comes from a later place or from x: in order, nothing is lost.
__device__ void keep_inputs(const KeptInputs& kept, int rows, int block, int blocks) {
  const int channels = int(kept.channels), all = rows * channels;
  for (int i = block * few_threads + int(threadIdx.x); i < all; i += blocks * few_threads) {
    const int row = i < channels ? 0 : i / channels, c = i - row * channels;
    float* const place = kept.states[row] + kept.state_at + c;
    for (int64_t j = 0; j + 2 < kept.taps; ++j)
      place[j * kept.channels] = place[(j + 1) * kept.channels];
    place[(kept.taps - 2) * kept.channels] = kept.x[row * kept.step + c];
  }
}

// Tiles of a block whose sums are added up together; of a half of the rows.
constexpr int tiles_together = 8;

// What a block has in shared memory after its weights: inputs of a window (rows, step), scales (N, heads),
// parts of the rows' squares (N, warps), sums (buffers, tiles, halves, N, warps, rows).
template <class Weight, int N>
struct BlockMemory {
  using Sums = TileSums<Weight, N>;
  static constexpr int tile_sums = N * few_warps * tile_rows;
  int staged = 0;                         // columns
  int heads = 0, tiles = 0, buffers = 1;  // tiles: of a batch, of all halves
  NormScale scale_of;

  __host__ __device__ int step() const { return staged + Sums::padding; }
  __host__ __device__ int batch_sums() const { return tiles * tile_sums; }
  __host__ __device__ size_t inputs() const {
    return size_t(Sums::rows * step()) * sizeof(typename Sums::Staged);
  }
  size_t bytes() const {
    return inputs() + size_t(N * (heads + few_warps) + buffers * batch_sums()) * sizeof(float);
  }
};

// Registers are for two blocks on a multiprocessor, and, where all weights have a place, for 128 threads of 64
// registers beside them: those of convolved_token.
template <bool streams>
constexpr int most_registers = streams ? 128 : 112;

// The last `keepers` blocks have no weights: they keep the inputs of a convolution, beside the others.
template <class Weight, int N, Staging staging, bool streams>
__global__ void __maxnreg__(most_registers<streams>)
    multiply_tiles(const __grid_constant__ FewRowsProduct<Weight> p,
                   const __grid_constant__ TilePlan<Weight> plan,
                   const __grid_constant__ BlockMemory<Weight, N> memory, int keepers, int places) {
  using Ring = WeightRing<Weight, streams>;
  using Sums = TileSums<Weight, N>;
  extern __shared__ float4 dynamic_shared[];
  trigger_dependent_launch();
  if (int(blockIdx.x) >= plan.blocks) {
    grid_dependency_synchronize();
    return keep_inputs(p.kept, N, int(blockIdx.x) - plan.blocks, keepers);
  }
  Ring ring(plan, places, dynamic_shared);
  char* const after_weights = reinterpret_cast<char*>(dynamic_shared) + Ring::bytes(places);
  auto* const inputs = reinterpret_cast<typename Sums::Staged*>(after_weights);
  float* const scales = reinterpret_cast<float*>(after_weights + memory.inputs());
  float* const parts = scales + N * memory.heads;
  float* const all_sums = parts + N * few_warps;
  // The sum that this thread stores, if it does: `lanes` threads add it up.
  constexpr int lanes = few_threads / (N * tiles_together * tile_rows);
  const int place = int(threadIdx.x) / lanes, own_row = place % tile_rows,
            own_tile = place / tile_rows % tiles_together, n = place / (tile_rows * tiles_together),
            all_tiles = plan.tiles();
  if constexpr (staging != Staging::plain && staging != Staging::gated)
    for (int i = int(threadIdx.x) * 32,
             end = staging == Staging::norm ? plan.columns : int(p.input.size);
         i < end; i += few_threads * 32)
      prefetch_l2_line(p.input.weight + i);
  const int own_column = int(threadIdx.x) / 32 * piece_columns<Weight>;
  float* own_sums = all_sums + Sums::place();
  typename Sums::Inputs own;
  float squares[N] = {}, scale = 1;
  int set_from = -1;
  // Tiles that are multiplied at once, where a tile is a chunk: what follows a norm has many narrow ones.
  constexpr int most_at_once = staging == Staging::norm ? 2 : 1;
  const int at_once = plan.columns <= chunk_columns<Weight> && ring.has_pairs() ? most_at_once : 1;
  grid_dependency_synchronize();

  if constexpr (staging == Staging::norm_of_heads)
    find_scales<Weight, N>(p.input, memory.scale_of, memory.heads, scales);
#pragma unroll 1
  for (int done = 0; done < all_tiles; done += plan.batch) {
    const int tiles = min(plan.batch, all_tiles - done);
    const int row = (int(blockIdx.x) + (done + own_tile) * plan.blocks) * tile_rows + own_row;
    const bool has_sum = own_tile < tiles && row < plan.rows,
               stores = has_sum && int(threadIdx.x) % lanes == 0;
    const int64_t at = int64_t(n) * plan.rows + row;
    const float before = p.add && stores ? p.out[at] : 0.0f;
#pragma unroll 1
    for (int window = 0; window < plan.columns; window += plan.window) {
      if (done == 0 || plan.window < plan.columns) {
        if (done + window > 0) __syncthreads();
        stage_inputs<staging, N>(
            p, memory.scale_of, scales, memory.heads, window, memory.staged, squares,
            [&](int input, int i, float4 x) { Sums::put(inputs, memory.step(), input, i, x); });
        if (staging == Staging::norm && done == 0) store_parts(squares, parts);
        __syncthreads();
        set_from = -1;
      }
      const int end = plan.window_end(window);
      float* mine = own_sums;
#pragma unroll 1
      for (int left = tiles * plan.halves; left > 0; left -= at_once) {
        Sums sums[most_at_once];
        const int count = min(at_once, left);
#pragma unroll 1
        for (int from = window + own_column; from - own_column < end;
             from += chunk_columns<Weight>) {
          if (from != set_from && from < end)
            own.set(inputs, memory.step(), from - window), set_from = from;
          ring.template take<most_at_once>(count, end - from, [&](const auto& weights) {
#pragma unroll
            for (int i = 0; i < most_at_once; ++i) sums[i].multiply(own, weights[i]);
          });
        }
        Sums::store(sums, count, mine, memory.tile_sums, window > 0);
        mine += count * memory.tile_sums;
      }
    }
    if (staging == Staging::norm && done == 0) scale = memory.scale_of(sum_of_parts(parts, n));
    __syncthreads();
    const float* const of_batch = own_sums - Sums::place();
    const auto sum_of_half = [&](int half) {
      const float* const of_tile =
          of_batch + ((own_tile * plan.halves + half) * N + n) * few_warps * tile_rows + own_row;
      float sum = 0;
      if (has_sum)
#pragma unroll
        for (int w = 0; w < few_warps; w += lanes)
          sum += of_tile[(w + int(threadIdx.x) % lanes) * tile_rows];
#pragma unroll
      for (int far = 1; far < lanes; far *= 2) sum += __shfl_xor_sync(~0u, sum, far);
      return scale * sum;
    };
    float sum = sum_of_half(0);
    if (p.swiglu) sum = activated(GateActivation::silu, sum) * sum_of_half(1);
    if (stores) {
      if (p.narrow_out)
        store_one(p.narrow_out + at, sum);
      else
        p.out[at] = before + sum;
    }
    // The other buffer, while other warps still read this one.
    own_sums =
        all_sums + Sums::place() + (own_sums == all_sums + Sums::place()) * memory.batch_sums();
  }
}

// How a product is launched.
template <class Weight, int N>
struct LaunchPlan {
  using Ring = WeightRing<Weight, true>;
  TilePlan<Weight> tiles;
  BlockMemory<Weight, N> memory;
  int keepers = 0, places = 0;
  bool streams = false;

  LaunchPlan(const FewRowsProduct<Weight>& op, const Gpu& gpu)
      : tiles{op.matrix, int(op.outputs), int(op.columns)} {
    using Sums = TileSums<Weight, N>;
    if (op.swiglu) tiles.halves = 2, tiles.rows /= 2;
    const int all = (tiles.rows + tile_rows - 1) / tile_rows;
    tiles.blocks = std::min(all, int(gpu.properties().multiprocessors));
    tiles.least_tiles = all / tiles.blocks, tiles.more = all % tiles.blocks;
    const int most = tiles.least_tiles + (tiles.more > 0);
    tiles.batch = std::min(most, tiles_together);
    constexpr int of_a_column = Sums::rows * int(sizeof(typename Sums::Staged)),
                  most_columns =
                      staged_bytes / of_a_column / chunk_columns<Weight> * chunk_columns<Weight>;
    memory.staged = std::min(most_columns, (tiles.columns + piece_columns<Weight> - 1) /
                                               piece_columns<Weight> * piece_columns<Weight>);
    tiles.window = memory.staged;
    if (staging_of(op.input, op.columns) == Staging::norm_of_heads)
      memory.heads = int(op.columns / op.input.size);
    const int64_t size = op.input.kind == FewRowsInputKind::norm ? op.columns : op.input.size;
    if (size > 0) memory.scale_of = {float(1 / double(size)), op.input.eps};
    memory.tiles = tiles.batch * tiles.halves, memory.buffers = most > tiles.batch ? 2 : 1;
    const int64_t kept = op.kept.x && op.kept.taps > 1 ? op.rows * op.kept.channels : 0;
    keepers = int((kept + few_threads - 1) / few_threads);
    const int64_t of_tile = (op.columns + chunk_columns<Weight> - 1) / chunk_columns<Weight>;
    // Two blocks have this much, but for what the GPU keeps of each.
    const auto block = int64_t(gpu.properties().shared_bytes);
    const int64_t pair = block - 1024, beside = op.beside > 0 ? op.beside : pair / 2;
    const int64_t chunks = of_tile * most * tiles.halves;
    places = Ring::places(chunks, pair - beside - int64_t(memory.bytes()));
    streams = chunks > places;
  }
  size_t shared() const { return Ring::bytes(places) + memory.bytes(); }
};

template <class Use>
void with_rows(int64_t rows, Use&& use) {
  choose<1, 2>(rows, "rows of a product of few", use);
}

}  // namespace

template <class Weight>
int64_t few_rows_shared_bytes(const FewRowsProduct<Weight>& op, const Gpu& gpu) {
  int64_t bytes = 0;
  with_rows(op.rows, [&]<int N>() { bytes = int64_t(LaunchPlan<Weight, N>(op, gpu).shared()); });
  return bytes;
}

template <class Weight>
void few_rows_product(const FewRowsProduct<Weight>& op, const Gpu& gpu) {
  using Kind = FewRowsInputKind;
  require(op.input.kind != Kind::head_norm || op.input.size % 4 == 0,
          "few_rows_product: expected heads of a multiple of four channels");
  require(inputs_are_aligned(op.input),
          "few_rows_product: expected inputs of multiples of four channels");
  require(
      has_few_rows_product<Weight>(op.columns) && (op.out != nullptr) != (op.narrow_out != nullptr),
      "few_rows_product: expected columns of 16 bytes, and one result");
  require(!op.swiglu || op.outputs % 2 == 0, "few_rows_product: expected two halves for swiglu");
  with_rows(op.rows, [&]<int N>() {
    const LaunchPlan<Weight, N> plan(op, gpu);
    choose<int(Staging::plain), int(Staging::norm), int(Staging::norm_of_lanes),
           int(Staging::norm_of_heads), int(Staging::gated)>(
        int(staging_of(op.input, op.columns)), "inputs", [&]<int staging>() {
          const auto kernel = plan.streams ? multiply_tiles<Weight, N, Staging(staging), true>
                                           : multiply_tiles<Weight, N, Staging(staging), false>;
          prefer_shared_carveout(kernel);
          launch_dependent(
              kernel,
              {dim3(unsigned(plan.tiles.blocks + plan.keepers)), few_threads, plan.shared()}, gpu,
              op, plan.tiles, plan.memory, plan.keepers, plan.places);
        });
  });
}

template int64_t few_rows_shared_bytes(const FewRowsProduct<float>&, const Gpu&);
template int64_t few_rows_shared_bytes(const FewRowsProduct<bf16>&, const Gpu&);
template void few_rows_product(const FewRowsProduct<float>&, const Gpu&);
template void few_rows_product(const FewRowsProduct<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
