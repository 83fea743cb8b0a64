// Few heads, the second kernel: given the terms of all tiles (few_heads_terms.cuh), the sequential
// pass through the states, a block for each 16 rows of a head. Four warps hold 16 columns each, one
// loads tiles, one stores results.
#pragma once

#include "kernel/cuda/async_copy.cuh"
#include "kernel/delta_rule/cuda/few_heads_terms.cuh"
#include "kernel/delta_rule/cuda/ready_tiles.cuh"
#include "kernel/delta_rule/cuda/saved_state.cuh"

namespace deltasane::kernel::cuda {
namespace {

constexpr int carry_warps = head_size / 16, state_threads = 32 * carry_warps;
constexpr int carry_threads = state_threads + 64;
constexpr int stages = 4;
// Bounds of its registers, not what is launched: 128 a thread are as many as fit beside the terms
// kernel, and loads in flight need them.
constexpr int carry_bound = 256, carry_resident = 2;
static_assert(carry_threads <= carry_bound);

template <class Real>
struct Stage {
  CarryOperands<Real> operands;
  CarryRows<Real> rows;
};

// Sums of which each warp has a part.
struct WarpParts {
  float4 of[carry_warps][2][32];

  __device__ void store(const Accumulator& x) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
      of[threadIdx.x / 32][p][threadIdx.x % 32] =
          make_float4(x.c[p][0], x.c[p][1], x.c[p][2], x.c[p][3]);
  }
  // The same bits in every warp.
  __device__ void add_others(Accumulator& x) const {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float4 near = of[warp ^ 1][p][lane], far = of[warp ^ 2][p][lane],
                   last = of[warp ^ 3][p][lane];
      x.c[p][0] = (x.c[p][0] + near.x) + (far.x + last.x);
      x.c[p][1] = (x.c[p][1] + near.y) + (far.y + last.y);
      x.c[p][2] = (x.c[p][2] + near.z) + (far.z + last.z);
      x.c[p][3] = (x.c[p][3] + near.w) + (far.w + last.w);
    }
  }
};

__device__ inline float2 two(const float* from) { return *reinterpret_cast<const float2*>(from); }

__device__ inline Accumulator load_accumulator(const float (&rows)[warp_rows][tile_tokens]) {
  const int row = threadIdx.x % 32 / 4, token = threadIdx.x % 4 * 2;
  Accumulator x;
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    const float2 upper = two(&rows[row][8 * p + token]), lower = two(&rows[row + 8][8 * p + token]);
    x.c[p][0] = upper.x, x.c[p][1] = upper.y, x.c[p][2] = lower.x, x.c[p][3] = lower.y;
  }
  return x;
}

template <class Real>
struct CarryMemory {
  Stage<Real> stage[stages];
  WarpParts sa[2], read[2];
  Boundary boundary[stages];
};

// Makes the boundaries of tiles, 32 at once by a warp: one would take as long, and every tile waits
// for this warp.
struct BoundaryProducer {
  Boundary* boundary;  // of the stages
  const float* tau;    // of the first tile, or null
  int64_t step;        // to the next one's
  int tiles;
  float next_tau = load(threadIdx.x % 32);
  Boundary mine = {};

  __device__ float load(int tile) const {
    return tau && tile < tiles ? __ldg(tau + tile * step) : 0;
  }
  // For one tile after the other. Without SANE all are the same.
  __device__ void store(int tile) {
    if (!tau && tile >= stages) return;
    const int lane = threadIdx.x % 32;
    if (tile % 32 == 0) mine = Boundary(next_tau), next_tau = load(tile + 32 + lane);
    if (tile % 32 == lane) boundary[tile % stages] = mine;
  }
};

// Loads tiles into the stages, with a barrier of the block per tile. Before barrier i the next tile
// is there; after it all warps have read the one before i, and its stage is filled again.
template <class Real>
struct TileLoader {
  const TileTerms<Real>* terms;  // of a head
  ReadyTiles ready;              // likewise
  Stage<Real>* stage;
  int rows;  // which of a tile's
  BoundaryProducer boundaries;

  __device__ void load(int tile) {
    if (tile < ready.tiles) {
      ready.wait(tile);
      copy(&stage[tile % stages].operands, &terms[tile].operands);
      copy(&stage[tile % stages].rows, &terms[tile].rows[rows]);
      boundaries.store(tile);
    }
    commit_group();
  }
  template <class Part>
  __device__ static void copy(Part* to, const Part* from) {
    constexpr int pieces = sizeof(Part) / sizeof(uint4);
    static_assert(sizeof(Part) % sizeof(uint4) == 0);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < pieces; i += 32)
      if (i + lane < pieces)
        copy_async(reinterpret_cast<uint4*>(to) + i + lane,
                   reinterpret_cast<const uint4*>(from) + i + lane);
  }
  __device__ void run() {
    for (int i = 0; i < stages - 1; ++i) load(i);
    wait_group<stages - 2>();
    __syncthreads();
    for (int tile = 0; tile < ready.tiles; ++tile) {
      wait_group<stages - 3>();
      __syncthreads();
      load(tile + stages - 1);
    }
    __syncthreads();
  }
};

// Adds up the warps' parts of a tile's results, a tile late, and stores them.
template <class Real>
struct ResultWriter {
  const CarryMemory<Real>& memory;
  Real* y;               // of the block's first row, the sequence's first token; or null
  int64_t step;          // from token to token
  float2 known[4] = {};  // of the pending tile: what does not depend on the state

  // A lane has four times two tokens of a row: float2 number 32 i + lane of a warp's part.
  __device__ static int row(int i) {
    return threadIdx.x % 32 / 8 + i % 2 * 4 + threadIdx.x % 2 * 8;
  }
  __device__ static int token(int i) { return i / 2 * 8 + threadIdx.x / 2 % 4 * 2; }

  __device__ void load(int tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      known[i] = two(&memory.stage[tile % stages].rows.y[row(i)][token(i)]);
  }
  __device__ void store(int tile) const {
    if (!y) return;
    Real* const first = y + int64_t(tile) * tile_tokens * step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 x[carry_warps];
#pragma unroll
      for (int w = 0; w < carry_warps; ++w)
        x[w] =
            reinterpret_cast<const float2*>(memory.read[tile % 2].of[w])[32 * i + threadIdx.x % 32];
      Real* const to = first + token(i) * step + row(i);
      store_one(to, ((x[0].x + x[1].x) + (x[2].x + x[3].x)) + known[i].x);
      store_one(to + step, ((x[0].y + x[1].y) + (x[2].y + x[3].y)) + known[i].y);
    }
  }
  __device__ void run(int tiles) {
    __syncthreads();
    for (int tile = 0; tile < tiles; ++tile) {
      __syncthreads();
      if (tile > 0) store(tile - 1);
      load(tile);
    }
    __syncthreads();
    store(tiles - 1);
  }
};

// S -> (S + added) diag(decay), with SANE if `sane`. decays: from this lane's first column on.
__device__ inline void update(Accumulator& S, const Accumulator& added, const float* decays,
                              const Boundary& boundary, bool sane) {
  const float2 decay[2] = {two(decays), two(decays + 8)};  // of the two columns of each piece
  Accumulator sum = S;
  sum.add(added);
  const auto each = [&](auto&& map) {  // map(entry, sum, decay)
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(S.c[p][i], sum.c[p][i], i % 2 ? decay[p].y : decay[p].x);
  };
  each([&](float& x, float s, float w) { x = s * boundary.factor.times(w); });
  if (!sane) return;
  SpeculateTiny as_tiny{boundary.tiny};
  as_tiny.apply(S.c[0]), as_tiny.apply(S.c[1]);
  if (as_tiny.all_tiny()) return;
  each([](float& x, float s, float w) { x = s * w; });
  SpeculateMedium as_medium{Tanh(boundary.tiny.tau)};
  as_medium.apply(S.c[0]), as_medium.apply(S.c[1]);
  if (as_medium.all_medium()) return;
  each([&](float& x, float s, float w) { x = as_medium.tanh(s * w); });
}

template <class Real>
__global__ __launch_bounds__(carry_bound,
                             carry_resident) void carry_kernel(DeltaRule<Real> op, int tiles,
                                                               const TileTerms<Real>* all,
                                                               const uint32_t* ready,
                                                               float* final_state) {
  extern __shared__ float4 dynamic_shared[];
  CarryMemory<Real>& memory = *reinterpret_cast<CarryMemory<Real>*>(dynamic_shared);
  const int64_t of_head = blockIdx.x / row_blocks;
  const int row_block = blockIdx.x % row_blocks;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int64_t chunks = (op.position + op.time) / tile_tokens - op.position / tile_tokens;
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  if (threadIdx.x >= state_threads + 32) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    Real* const y = op.y ? op.y + first + row_block * warp_rows : nullptr;
    return ResultWriter<Real>{memory, y, op.heads * head_size}.run(tiles);
  }
  if (threadIdx.x >= state_threads) {
    const BoundaryProducer boundaries{memory.boundary, tau, op.heads, tiles};
    TileLoader<Real>{all + of_head * tiles,
                     {ready + of_head * tiles, tiles},
                     memory.stage,
                     row_block,
                     boundaries}
        .run();
    // The next kernel in the stream starts when this one has ended, so the terms kernel must have
    // ended too.
    return grid_dependency_synchronize();
  }
  const int lane = threadIdx.x % 32, column = threadIdx.x / 32 * 16;
  const int64_t place =  // of this thread's first two entries of the state
      (of_head * head_size + row_block * warp_rows + lane / 4) * head_size + column + lane % 4 * 2;
  Accumulator S;
  if (op.initial)
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float* const from = op.initial + place + 8 * p;
      const float2 upper = two(from), lower = two(from + 8 * head_size);
      S.c[p][0] = upper.x, S.c[p][1] = upper.y, S.c[p][2] = lower.x, S.c[p][3] = lower.y;
    }
  constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  FragmentB<state_planes> a;
  FragmentB<result> r;
  Accumulator u;   // the first warp's, zeros for the others
  float4* saved =  // where this thread's entries of the next state go
      op.states ? &reinterpret_cast<SavedState*>(op.states)[of_head * (tiles + 1)]
                       .of[row_block][column / 8][lane]
                : nullptr;
  const auto save_state = [&] {
    if (!saved) return;
#pragma unroll
    for (int p = 0; p < 2; ++p)
      saved[32 * p] = make_float4(S.c[p][0], S.c[p][1], S.c[p][2], S.c[p][3]);
    saved += sizeof(SavedState) / sizeof(float4);
  };
  const auto load_first = [&](const Stage<Real>& stage) {
    a.template load<Layout::row_major>(stage.operands.a, column, 0);
    r.template load<Layout::row_major>(stage.operands.r, column, 0);
    if (column == 0) u = load_accumulator(stage.rows.u);
  };
  __syncthreads();
  load_first(memory.stage[0]);
  for (int tile = 0; tile < tiles; ++tile) {
    const Stage<Real>& stage = memory.stage[tile % stages];
    save_state();
    const Boundary boundary = memory.boundary[tile % stages];
    Accumulator sa, y;  // rows of the state, columns of tokens
    ProductSums<Real, 2> more;
    FragmentB<state_planes> b;
    {
      const FragmentA<state_planes> state(S.c[0], S.c[1]);
      ProductSums<Real, 2> sa_sums;
      ProductSums<Real, 1> y_sums;
      sa_sums.large = u;
      sa_sums.add(state, a);
      y_sums.template add_leading<result>(state, r);
      FragmentA<exact> v;
      v.template load<Layout::transposed>(stage.rows.v, 0, 0);
      b.template load<Layout::row_major>(stage.operands.k, 0, column);
      more.add(v, b);
      b.template load<Layout::row_major>(stage.operands.b, 0, column);
      sa = sa_sums.total();
      memory.sa[tile % 2].store(sa);
      y = y_sums.total();
    }
    __syncthreads();  // all parts are stored, the tile before is read, and the next one is there
    memory.sa[tile % 2].add_others(sa);
    more.add(FragmentA<state_planes>(sa), b);
    memory.read[tile % 2].store(y);
    load_first(memory.stage[(tile + 1) % stages]);  // after the last tile: not used
    update(S, more.total(), &stage.operands.decay[column + lane % 4 * 2], boundary, tau);
  }
  __syncthreads();
  save_state();
  if (final_state)
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      float* const to = final_state + place + 8 * p;
      *reinterpret_cast<float2*>(to) = {S.c[p][0], S.c[p][1]};
      *reinterpret_cast<float2*>(to + 8 * head_size) = {S.c[p][2], S.c[p][3]};
    }
}

}  // namespace
}  // namespace deltasane::kernel::cuda
