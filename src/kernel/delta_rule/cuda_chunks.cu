// Few heads: what does not depend on the state for many tiles at once, and beside that a short
// sequential pass.
//
// With the rows of A~ R~ B~ K~ V the a~ r~ b~ k~ v of a tile's 16 tokens (cuda_tile.cuh), its first
// state S0, SA the rows T_t-1 a~_t, and AB AK RB RK the lower parts of A~ B~' and so on (AB and AK
// without the diagonal):
//
//     SA = A' S0' + U                        A' = M A~        U  = M AK V        M = (I - AB)^-1
//     Y  = R' S0' + Y0                       R' = R~ + RB A'  Y0 = RB U + RK V
//     S  = (S0 + SA' B~ + V' K~) diag(W)
//
// All but SA, Y and S do not depend on S0. Rows of S0 do not meet, so 16 of them are a block of the
// sequential pass; each of its warps has 16 columns.
//
// The sequential pass is the second of two kernels and may start when every block of the first has
// started: so it waits for terms only that running blocks make, and they wait for nobody.
//
// Both are one file, over 500 lines, because what one writes for the other is known to nobody else.
#include <algorithm>

#include "base/error.h"
#include "kernel/cuda_async.cuh"
#include "kernel/delta_rule/cuda_operands.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// What is known of a tile before its first state is: what all rows of the state need,
template <class Real>
struct CarryFactors {
  SplitMatrix<state_planes, head_size, tile_tokens, Rows::woven> a;         // A'
  SplitMatrix<result_planes<Real>, head_size, tile_tokens, Rows::woven> r;  // R'
  SplitMatrix<state_planes, tile_tokens, head_size, Rows::woven> b, k;      // B~ K~
  alignas(16) float decay[head_size];
};
// and what 16 of them need.
template <class Real>
struct CarryRows {
  SplitMatrix<exact_planes<Real>, tile_tokens, shared_rows, Rows::woven> v;
  alignas(16) float u[shared_rows][tile_tokens], y[shared_rows][tile_tokens];
};
constexpr int row_blocks = head_size / shared_rows;
template <class Real>
struct TileTerms {
  CarryFactors<Real> factors;
  CarryRows<Real> rows[row_blocks];
};

// Blocks that make terms on each multiprocessor, so that one of the sequential pass fits beside
// them; their registers are bounded for that as if there were more.
constexpr int terms_beside = 2, terms_resident = 4;

template <class Real>
struct TermsMemory {
  ForwardFactors<Real> factors;
  MakerMemory making;
  int taken;  // the tile after the next one
};

// Both kernels wait for their products.
template <class Real, int apart>
using ProductSums = StateSums<Real, apart, Order::diagonals>;

// How far the terms are, so that the sequential pass need not wait for all of them. Zeros at first.
struct Progress {
  uint32_t* taken;  // tiles that blocks have taken beyond the first two of each
  uint32_t* made;   // (head, tile): whether its terms are there
};

// Of a tile's factors, the terms: each warp makes those of 16 channels and of 16 rows of the state.
template <class Real>
__device__ void make_terms(const ForwardFactors<Real>& factors, TileTerms<Real>& out) {
  constexpr int result = result_planes<Real>;
  const int warp = threadIdx.x / 32, first = warp * 16;
  Right<state_planes> inverse;
  Right<result> rb;
  inverse.template load<Lies::straight>(factors.inverse, 0, 0);
  rb.template load<Lies::transposed>(factors.rb, 0, 0);
  {  // A' and R', transposed
    Left<state_planes> a;
    a.template load<Lies::transposed>(factors.a, first, 0);
    ProductSums<Real, 2> sums;
    sums.add(a, inverse);
    const Sums whole = sums.total();
    const auto into = [&](auto& matrix) {
      return [&matrix, first](int i, int t, float x, float next) {
        matrix.set(first + i, t, {x, next});
      };
    };
    whole.each(into(out.factors.a));
    Left<result> r;
    r.template load<Lies::transposed>(factors.r, first, 0);
    ProductSums<Real, 1> more;
    more.template add_main<result>(Left<state_planes>(whole), rb);
    Sums reads = r.sums();
    reads.add(more.total());
    reads.each(into(out.factors.r));
  }
  {  // U and Y0, transposed
    Left<exact_planes<Real>> v;
    Right<state_planes> ak;
    Right<result> rk;
    v.template load<Lies::transposed>(factors.given, first, 0);
    ak.template load<Lies::transposed>(factors.ak, 0, 0);
    rk.template load<Lies::transposed>(factors.rk, 0, 0);
    ProductSums<Real, 2> sums, u_sums;
    ProductSums<Real, 1> y_sums;
    sums.add(v, ak);
    u_sums.add(Left<state_planes>(sums.total()), inverse);
    const Sums u = u_sums.total();
    y_sums.template add_main<result>(v, rk);
    y_sums.template add_main<result>(Left<state_planes>(u), rb);
    const auto into = [](float(&rows)[shared_rows][tile_tokens]) {
      return [&rows](int i, int t, float x, float next) {
        *reinterpret_cast<float2*>(&rows[i][t]) = {x, next};
      };
    };
    u.each(into(out.rows[warp].u)), y_sums.total().each(into(out.rows[warp].y));
  }
  const int token = threadIdx.x / 8, part = threadIdx.x % 8 * 8;
  const auto copy = [](__nv_bfloat16* to, const __nv_bfloat16* from) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
  };
#pragma unroll
  for (int p = 0; p < state_planes; ++p) {
    copy(out.factors.b.at(p, token, part), factors.b.at(p, token, part));
    copy(out.factors.k.at(p, token, part), factors.k.at(p, token, part));
  }
#pragma unroll
  for (int p = 0; p < exact_planes<Real>; ++p)
    copy(out.rows[part / shared_rows].v.at(p, token, part % shared_rows),
         factors.given.at(p, token, part));
  if (threadIdx.x < head_size) out.factors.decay[threadIdx.x] = factors.decay[threadIdx.x];
}

// A block makes the terms of one tile after the other: each time the first that no other has taken,
// tiles of all heads in the order of their tokens.
template <class Real>
__global__ __launch_bounds__(makers, terms_resident) void terms_kernel(DeltaRule<Real> op,
                                                                       int tiles,
                                                                       TileTerms<Real>* all,
                                                                       Progress progress) {
  let_next_kernel_start();
  extern __shared__ float4 raw_memory[];
  auto& memory = *reinterpret_cast<TermsMemory<Real>*>(raw_memory);
  const int heads = int(op.batch * op.heads), count = heads * tiles;
  const bool speaker = threadIdx.x == makers - 32;  // of a warp that has less to do than others
  FactorMaker<Real> maker(memory.making, op, 0);
  const auto ask_for = [&](int which) {
    if (which >= count) return;
    const int64_t of_head = which % heads;
    maker.turn_to(op, of_head / op.heads, of_head % op.heads);
    maker.ask_for(which / heads, tile_tokens);
  };
  // That terms are there is said a tile late, when nobody has to wait until they are written.
  uint32_t* due = nullptr;
  const auto say = [&] {
    if (speaker && due) write_released(due, 1);
  };
  int which = blockIdx.x, next = which + gridDim.x;
  ask_for(which);
  while (which < count) {
    const uint32_t taken = speaker ? atomicAdd(progress.taken, 1u) : 0;
    maker.make_vectors(memory.factors);
    if (speaker) memory.taken = int(2 * gridDim.x + taken);
    ask_for(next);
    maker.template make_products<Order::diagonals>(memory.factors);
    say();
    __syncthreads();
    const int after = memory.taken;
    const int64_t place = int64_t(which % heads) * tiles + which / heads;
    make_terms(memory.factors, all[place]);
    __syncthreads();  // all of them are on their way, and the memory is free
    due = progress.made + place;
    which = next, next = after;
  }
  say();
}

constexpr int carry_warps = head_size / 16, carriers = 32 * carry_warps;
constexpr int carry_threads = carriers + 64;  // a warp brings tiles, and one writes results
constexpr int stages = 4;
// Bounds of its registers, not what there is: 128 a thread are as many as fit beside the terms',
// and what waits for memory needs them.
constexpr int carry_bound = 256, carry_resident = 2;
static_assert(carry_threads <= carry_bound);

template <class Real>
struct Stage {
  CarryFactors<Real> factors;
  CarryRows<Real> rows;
};

// Sums of which each warp has found a part.
struct Parts {
  float4 of[carry_warps][2][32];

  __device__ void say(const Sums& x) {
#pragma unroll
    for (int p = 0; p < 2; ++p)
      of[threadIdx.x / 32][p][threadIdx.x % 32] =
          make_float4(x.c[p][0], x.c[p][1], x.c[p][2], x.c[p][3]);
  }
  // The same bits in every warp.
  __device__ void add_others(Sums& x) const {
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

// As sums of a warp have theirs.
__device__ inline Sums sums_of(const float (&rows)[shared_rows][tile_tokens]) {
  const int row = threadIdx.x % 32 / 4, token = threadIdx.x % 4 * 2;
  Sums x;
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
  Parts sa[2], read[2];
  Boundary boundary[stages];
};

// Makes the ends of tiles. A warp makes 32 at once: one takes as long, and every tile waits for
// this warp.
struct BoundaryMaker {
  Boundary* boundary;  // of the stages
  const float* tau;    // of the first tile, or null
  int64_t step;        // to the next one's
  int tiles;
  float next_tau = ask(threadIdx.x % 32);
  Boundary mine = {};

  __device__ float ask(int tile) const {
    return tau && tile < tiles ? __ldg(tau + tile * step) : 0;
  }
  // For one tile after the other. Without SANE all are the same.
  __device__ void put(int tile) {
    if (!tau && tile >= stages) return;
    const int lane = threadIdx.x % 32;
    if (tile % 32 == 0) mine = Boundary(next_tau), next_tau = ask(tile + 32 + lane);
    if (tile % 32 == lane) boundary[tile % stages] = mine;
  }
};

// Stages of tiles, a barrier a tile. Before barrier i the next tile has come; after it the one
// before i has been read by all, and its stage is filled again.
template <class Real>
struct TileBringer {
  const TileTerms<Real>* terms;  // of a head
  const uint32_t* made;          // likewise
  Stage<Real>* stage;
  int tiles, rows;  // rows: which of a tile's
  BoundaryMaker boundaries;
  int there = 0;  // so many tiles' terms

  // Each lane looks for a tile. What another block wrote before it said so is seen by the lane that
  // was told, and by the others of its warp when they have met.
  __device__ void wait_for(int tile) {
    while (there <= tile) {
      const int mine = there + threadIdx.x % 32;
      const bool told = mine < tiles && read_acquired(made + mine);
      there += __clz(__brev(~__ballot_sync(~0u, told)));  // all before the first that is not there
    }
    __syncwarp();
  }
  __device__ void ask_for(int tile) {
    if (tile < tiles) {
      wait_for(tile);
      copy(&stage[tile % stages].factors, &terms[tile].factors);
      copy(&stage[tile % stages].rows, &terms[tile].rows[rows]);
      boundaries.put(tile);
    }
    close_group();
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
  __device__ void bring() {
    for (int i = 0; i < stages - 1; ++i) ask_for(i);
    wait_for_groups<stages - 2>();
    __syncthreads();
    for (int tile = 0; tile < tiles; ++tile) {
      wait_for_groups<stages - 3>();
      __syncthreads();
      ask_for(tile + stages - 1);
    }
    __syncthreads();
  }
};

// Adds up what the warps have found of a tile's results, a tile late, and writes them.
template <class Real>
struct ResultWriter {
  const CarryMemory<Real>& memory;
  Real* y;               // of the block's first row, the sequence's first token; or null
  int64_t step;          // from token to token
  float2 known[4] = {};  // of the tile that is due: what does not depend on the state

  // A lane has four times two tokens of a row: float2 number 32 i + lane of a warp's part.
  __device__ static int row(int i) {
    return threadIdx.x % 32 / 8 + i % 2 * 4 + threadIdx.x % 2 * 8;
  }
  __device__ static int token(int i) { return i / 2 * 8 + threadIdx.x / 2 % 4 * 2; }

  __device__ void ask_for(int tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      known[i] = two(&memory.stage[tile % stages].rows.y[row(i)][token(i)]);
  }
  __device__ void write(int tile) const {
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
      if (tile > 0) write(tile - 1);
      ask_for(tile);
    }
    __syncthreads();
    write(tiles - 1);
  }
};

// S -> (S + added) diag(decay), and SANE if it is wanted. decays: from this lane's first column on.
__device__ inline void update(Sums& S, const Sums& added, const float* decays,
                              const Boundary& boundary, bool wanted) {
  const float2 decay[2] = {two(decays), two(decays + 8)};  // of the two columns of each piece
  Sums sum = S;
  sum.add(added);
  const auto each = [&](auto&& map) {  // map(entry, sum, decay)
#pragma unroll
    for (int p = 0; p < 2; ++p)
#pragma unroll
      for (int i = 0; i < 4; ++i) map(S.c[p][i], sum.c[p][i], i % 2 ? decay[p].y : decay[p].x);
  };
  each([&](float& x, float s, float w) { x = s * boundary.factor.times(w); });
  if (!wanted) return;
  TinyFirst tiny_first{boundary.threshold};
  tiny_first.take(S.c[0]), tiny_first.take(S.c[1]);
  if (tiny_first.all_tiny()) return;
  each([](float& x, float s, float w) { x = s * w; });
  MediumFirst medium_first{Tangent(boundary.threshold.tau)};
  medium_first.take(S.c[0]), medium_first.take(S.c[1]);
  if (medium_first.all_medium()) return;
  each([&](float& x, float s, float w) { x = medium_first.tangent(s * w); });
}

template <class Real>
__global__ __launch_bounds__(carry_bound,
                             carry_resident) void carry_kernel(DeltaRule<Real> op, int tiles,
                                                               const TileTerms<Real>* all,
                                                               const uint32_t* made,
                                                               float* final_state) {
  extern __shared__ float4 raw_memory[];
  CarryMemory<Real>& memory = *reinterpret_cast<CarryMemory<Real>*>(raw_memory);
  const int64_t of_head = blockIdx.x / row_blocks;
  const int row_block = blockIdx.x % row_blocks;
  const int64_t sequence = of_head / op.heads, head = of_head % op.heads;
  const int64_t chunks = (op.position + op.time) / tile_tokens - op.position / tile_tokens;
  const float* const tau = op.tau ? op.tau + sequence * chunks * op.heads + head : nullptr;
  if (threadIdx.x >= carriers + 32) {
    const int64_t first = (sequence * op.time * op.heads + head) * head_size;
    Real* const y = op.y ? op.y + first + row_block * shared_rows : nullptr;
    return ResultWriter<Real>{memory, y, op.heads * head_size}.run(tiles);
  }
  if (threadIdx.x >= carriers) {
    const BoundaryMaker boundaries{memory.boundary, tau, op.heads, tiles};
    TileBringer<Real>{
        all + of_head * tiles, made + of_head * tiles, memory.stage, tiles, row_block, boundaries}
        .bring();
    // The next kernel in the queue starts when this one has ended, so the terms' must have too.
    return wait_for_kernel_before();
  }
  const int lane = threadIdx.x % 32, column = threadIdx.x / 32 * 16;
  const int64_t place =  // of this thread's first two entries of the state
      (of_head * head_size + row_block * shared_rows + lane / 4) * head_size + column +
      lane % 4 * 2;
  Sums S;
  if (op.initial)
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float* const from = op.initial + place + 8 * p;
      const float2 upper = two(from), lower = two(from + 8 * head_size);
      S.c[p][0] = upper.x, S.c[p][1] = upper.y, S.c[p][2] = lower.x, S.c[p][3] = lower.y;
    }
  constexpr int exact = exact_planes<Real>, result = result_planes<Real>;
  Right<state_planes> a;
  Right<result> r;
  Sums u;         // the first warp's, zeros for the others
  float4* kept =  // where this thread's entries of the next state go
      op.states ? &reinterpret_cast<KeptState*>(op.states)[of_head * (tiles + 1)]
                       .of[row_block][column / 8][lane]
                : nullptr;
  const auto keep_state = [&] {
    if (!kept) return;
#pragma unroll
    for (int p = 0; p < 2; ++p)
      kept[32 * p] = make_float4(S.c[p][0], S.c[p][1], S.c[p][2], S.c[p][3]);
    kept += sizeof(KeptState) / sizeof(float4);
  };
  const auto read_first = [&](const Stage<Real>& stage) {
    a.template load<Lies::straight>(stage.factors.a, column, 0);
    r.template load<Lies::straight>(stage.factors.r, column, 0);
    if (column == 0) u = sums_of(stage.rows.u);
  };
  __syncthreads();
  read_first(memory.stage[0]);
  for (int tile = 0; tile < tiles; ++tile) {
    const Stage<Real>& stage = memory.stage[tile % stages];
    keep_state();
    const Boundary boundary = memory.boundary[tile % stages];
    Sums sa, y;  // rows of the state, columns of tokens
    ProductSums<Real, 2> more;
    Right<state_planes> b;
    {
      const Left<state_planes> state(S.c[0], S.c[1]);
      ProductSums<Real, 2> sa_sums;
      ProductSums<Real, 1> y_sums;
      sa_sums.large = u;
      sa_sums.add(state, a);
      y_sums.template add_main<result>(state, r);
      Left<exact> v;
      v.template load<Lies::transposed>(stage.rows.v, 0, 0);
      b.template load<Lies::straight>(stage.factors.k, 0, column);
      more.add(v, b);
      b.template load<Lies::straight>(stage.factors.b, 0, column);
      sa = sa_sums.total();
      memory.sa[tile % 2].say(sa);
      y = y_sums.total();
    }
    __syncthreads();  // all have said theirs, and have read the tile before; the next one has come
    memory.sa[tile % 2].add_others(sa);
    more.add(Left<state_planes>(sa), b);
    memory.read[tile % 2].say(y);
    read_first(memory.stage[(tile + 1) % stages]);  // of the last tile: what nobody uses
    update(S, more.total(), &stage.factors.decay[column + lane % 4 * 2], boundary, tau);
  }
  __syncthreads();
  keep_state();
  if (final_state)
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      float* const to = final_state + place + 8 * p;
      *reinterpret_cast<float2*>(to) = {S.c[p][0], S.c[p][1]};
      *reinterpret_cast<float2*>(to + 8 * head_size) = {S.c[p][2], S.c[p][3]};
    }
}

constexpr int64_t most_tiles = int64_t{1} << 30;

int64_t progress_words(int64_t count) { return (count + 1 + 3) / 4 * 4; }

}  // namespace

template <class Real>
int64_t chunk_pass_floats(int64_t batch, int64_t heads, int64_t tiles) {
  const int64_t count = batch * heads * tiles;
  return count * int64_t(sizeof(TileTerms<Real>) / sizeof(float)) + progress_words(count);
}

template <class Real>
uint64_t chunk_pass_shared() {
  return std::max(sizeof(TermsMemory<Real>), sizeof(CarryMemory<Real>));
}

template <class Real>
void chunk_pass(const DeltaRule<Real>& op, int64_t tiles, float* terms, float* final_state,
                const Gpu& gpu) {
  const int64_t heads = op.batch * op.heads, count = heads * tiles;
  require(count <= most_tiles, "a sequential pass has at most 2^30 tiles");
  auto* const all = reinterpret_cast<TileTerms<Real>*>(terms);
  auto* const words = reinterpret_cast<uint32_t*>(all + count);
  zero_on_gpu(words, uint64_t(progress_words(count)) * sizeof(uint32_t), gpu);
  const Progress progress{words, words + 1};
  const int64_t blocks = std::min(count, int64_t{terms_beside} * gpu.facts().multiprocessors);
  keep_shared(terms_kernel<Real>), keep_shared(carry_kernel<Real>);
  launch(terms_kernel<Real>, Grid{dim3(unsigned(blocks)), dim3(makers), sizeof(TermsMemory<Real>)},
         gpu, op, int(tiles), all, progress);
  launch_early(
      carry_kernel<Real>,
      Grid{dim3(unsigned(heads * row_blocks)), dim3(carry_threads), sizeof(CarryMemory<Real>)}, gpu,
      op, int(tiles), all, progress.made, final_state);
}

template uint64_t chunk_pass_shared<float>();
template uint64_t chunk_pass_shared<bf16>();
template int64_t chunk_pass_floats<float>(int64_t, int64_t, int64_t);
template int64_t chunk_pass_floats<bf16>(int64_t, int64_t, int64_t);
template void chunk_pass(const DeltaRule<float>&, int64_t, float*, float*, const Gpu&);
template void chunk_pass(const DeltaRule<bf16>&, int64_t, float*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
