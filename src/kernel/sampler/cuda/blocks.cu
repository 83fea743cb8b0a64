// A block has a row, or a cluster of two, four or eight blocks has one. There are three passes over the
// row, or more where many tokens are kept; it stays in L2. Control flow is uniform: a pass returns the same
// result to all threads.
#include "kernel/sampler/cuda.h"

#include "base/error.h"
#include "kernel/cuda/barrier.cuh"
#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/sampler/cuda/sample_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 1024, warps = threads / 32;
constexpr int copies = 16;  // of a histogram, against contention: most tokens share a few digits
constexpr int most_blocks = 8;

constexpr int most_candidates = 256;

using Sum = unsigned long long;

// A token with its logit, in the order of tokens: larger first.
__device__ Sum entry_of(int32_t token, uint32_t key) { return Sum(key) << 32 | ~uint32_t(token); }
__device__ int32_t token_of(Sum entry) { return int32_t(~uint32_t(entry)); }
__device__ float logit_in(Sum entry) { return logit_of(uint32_t(entry >> 32)); }

// What blocks exchange is double-buffered: one cluster barrier a pass is enough. A buffer is
// written again only after the barrier of the pass between, which every reader has passed too.
struct Shared {
  Sum of_digit[256][copies];
  Sum of_warp[warps];  // in reach: of the warps before
  RowScan scan_of_warp[warps];
  Digit digit;
  Sum digits[2][256];  // from the largest down; read by other blocks
  Sum of_block[2][most_blocks];
  RowScan scan_of_block[2][most_blocks];
  int32_t token[2];
  alignas(16) uint32_t key_of_warp[most_blocks * warps];  // the largest of each warp of all blocks
  uint32_t cutoff;
  int candidates;  // of the list, in the first block
  Sum candidate[most_candidates];
  Sum listed[most_listed];
};

// Inclusive prefix sum over a warp.
__device__ Sum warp_running(Sum x) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const Sum other = __shfl_up_sync(~0u, x, far);
    if (lane >= far) x += other;
  }
  return x;
}
__device__ RowScan warp_joined(RowScan mine) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) {
    RowScan other;
    other.largest = __shfl_xor_sync(~0u, mine.largest, far);
    other.top = __shfl_xor_sync(~0u, mine.top, far);
    other.broken = __shfl_xor_sync(~0u, mine.broken, far);
    mine = joined(mine, other);
  }
  return mine;
}

// Each warp has contiguous tokens, warps and blocks in the order of ids.
template <int blocks>
struct BlockPasses {
  const float* row;
  Shared& shared;
  int rank, lane, warp;
  int32_t begin, end, whole_begin, whole_end;  // tokens of the warp, of the block
  int turn = 0;

  __device__ BlockPasses(const float* logits, int32_t vocabulary, int rank_here, Shared& place)
      : row(logits),
        shared(place),
        rank(rank_here),
        lane(int(threadIdx.x) % 32),
        warp(int(threadIdx.x) / 32) {
    const int32_t step = (vocabulary - 1) / (blocks * threads) * 32 + 32;  // of a warp
    whole_begin = min(vocabulary, rank * warps * step);
    whole_end = min(vocabulary, (rank + 1) * warps * step);
    begin = min(whole_end, whole_begin + warp * step);
    end = min(whole_end, begin + step);
  }

  __device__ float logit(int32_t token) const { return row[token]; }

  // Of all threads of all blocks.
  __device__ void barrier() const {
    if constexpr (blocks == 1)
      __syncthreads();
    else
      cluster_barrier();
  }
  template <class T>
  __device__ T& in_block(T& own, int of) const {
    if constexpr (blocks == 1)
      return own;
    else
      return *map_shared_rank(&own, of);
  }
  __device__ int next_turn() {
    turn ^= 1;
    return turn ^ 1;
  }

  // Not unrolled: every pass is other code, which has to be fetched first.
  template <class Use>  // use(token, logit)
  __device__ void each(Use use) const {
#pragma unroll 1
    for (int32_t i = begin + lane; i < end; i += 32) use(i, row[i]);
  }

  // The first pass, from global memory: eight loads in flight.
  __device__ RowScan scan() {
    constexpr int at_once = 8;
    const int now = next_turn();
    RowScan mine;
#pragma unroll 1
    for (int32_t from = begin + lane; from < end; from += at_once * 32) {
      float logit[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        logit[i] = from + i * 32 < end ? row[from + i * 32] : -INFINITY;
#pragma unroll
      for (int i = 0; i < at_once; ++i)
        if (from + i * 32 < end) mine = joined(mine, scanned(from + i * 32, logit[i]));
    }
    mine = warp_joined(mine);
    if (lane == 0) shared.scan_of_warp[warp] = mine;
    if (lane < blocks)
      in_block(shared.key_of_warp[rank * warps + warp], lane) = key_of(mine.largest);
    __syncthreads();
    if (warp == 0) {
      mine = warp_joined(shared.scan_of_warp[lane]);
      if (lane < blocks) in_block(shared.scan_of_block[now][rank], lane) = mine;
    }
    barrier();
    RowScan whole;
    for (int b = 0; b < blocks; ++b) whole = joined(whole, shared.scan_of_block[now][b]);
    return whole;
  }

  template <class Measure>
  __device__ Sum own_sum(const Measure& measure) const {
    Sum mine = 0;
    each([&](int32_t i, float logit) { mine += measure(i, logit); });
    return warp_total(mine);
  }

  template <class Measure>
  __device__ uint64_t total(const Measure& measure) {
    const int now = next_turn();
    const Sum mine = own_sum(measure);
    if (lane == 0) shared.of_warp[warp] = mine;
    __syncthreads();
    if (warp == 0) {
      const Sum block = warp_total(shared.of_warp[lane]);
      if (lane < blocks) in_block(shared.of_block[now][rank], lane) = block;
    }
    barrier();
    Sum whole = 0;
    for (int b = 0; b < blocks; ++b) whole += shared.of_block[now][b];
    return whole;
  }

  template <class Measure>
  __device__ Digit digit(const Measure& measure, uint32_t known, int shift, uint64_t above,
                         uint64_t need) {
    const int now = next_turn();
    Sum* const sums = &shared.of_digit[0][0];
    for (int i = int(threadIdx.x); i < 256 * copies; i += threads) sums[i] = 0;
    __syncthreads();
    each([&](int32_t i, float logit) {
      const uint32_t key = key_of(logit);
      if (uint64_t(key ^ known) >> (shift + 8) != 0) return;
      const Sum value = measure(i, logit);
      if (value != 0) atomicAdd(&shared.of_digit[key >> shift & 255][lane % copies], value);
    });
    __syncthreads();
    // Thread t has digit 255 - t: the sum above a digit is that of the threads before it.
    if (threadIdx.x < 256) {
      Sum mine = 0;
      for (int c = 0; c < copies; ++c) mine += shared.of_digit[255 - threadIdx.x][c];
      shared.digits[now][threadIdx.x] = mine;
    }
    barrier();
    Sum own = 0, running = 0;
    if (threadIdx.x < 256) {
#pragma unroll
      for (int b = 0; b < blocks; ++b) own += in_block(shared.digits[now][threadIdx.x], b);
      running = warp_running(own);
      if (lane == 31) shared.of_warp[warp] = running;
    }
    __syncthreads();
    if (threadIdx.x < 256) {
      for (int w = 0; w < warp; ++w) running += shared.of_warp[w];
      const Sum larger = above + (running - own);
      const bool is_last = threadIdx.x == 255;  // the answer where rounding lets none reach it
      if (larger < need && (larger + own >= need || is_last))
        shared.digit = {255 - uint32_t(threadIdx.x), larger, own};
    }
    __syncthreads();
    return shared.digit;
  }

  template <class Measure>
  __device__ int32_t reach(const Measure& measure, uint64_t before) {
    const int now = next_turn();
    const Sum mine = own_sum(measure);
    if (lane == 0) shared.of_warp[warp] = mine;
    if (threadIdx.x == 0) shared.token[now] = -1;
    __syncthreads();
    if (warp == 0) {
      const Sum own = shared.of_warp[lane], running = warp_running(own);
      shared.of_warp[lane] = running - own;
      const Sum block = __shfl_sync(~0u, running, 31);
      if (lane < blocks) in_block(shared.of_block[now][rank], lane) = block;
    }
    barrier();
    Sum passed = shared.of_warp[warp];
    for (int b = 0; b < rank; ++b) passed += shared.of_block[now][b];
    if (passed <= before && before < passed + mine) {
      const int32_t found = reach_in_warp(measure, before, passed);
      if (lane < blocks) in_block(shared.token[now], lane) = found;
    }
    barrier();
    return shared.token[now];
  }

  // The list is in the first block, and its first warp alone continues with it: to all others it is
  // returned as empty.
  __device__ int list(int count) {
    if (count > blocks * warps || !gather(cutoff_of_warps(count))) {
      const int64_t known = cutoff_of_digits(count);
      if (known < 0 || !gather(uint32_t(known))) return -1;
    }
    if (rank > 0) return 0;
    const int candidates = shared.candidates;
    if (int(threadIdx.x) < candidates) {
      const Sum mine = shared.candidate[threadIdx.x];
      int before = 0;
      for (int i = 0; i < candidates; ++i) before += shared.candidate[i] > mine;
      if (before < count) shared.listed[before] = mine;
    }
    __syncthreads();
    return warp == 0 ? min(count, candidates) : 0;
  }
  __device__ int32_t listed(int number) const { return token_of(shared.listed[number]); }
  // Each thread has two neighbours of the list.
  template <class Measure>
  __device__ int reach_in_list(const Measure& measure, int some, uint64_t before) const {
    const Sum first = of_listed(measure, some, 2 * lane);
    const Sum both = first + of_listed(measure, some, 2 * lane + 1);
    const Sum running = warp_running(both);
    const unsigned beyond = __ballot_sync(~0u, running > before);
    if (!beyond) return some;
    const int from = __ffs(int(beyond)) - 1;
    const bool is_first = running - both + first > before;
    return 2 * from + (__shfl_sync(~0u, int(is_first), from) ? 0 : 1);
  }
  template <class Measure>
  __device__ uint64_t total_of_list(const Measure& measure, int some) const {
    return warp_total(of_listed(measure, some, 2 * lane) + of_listed(measure, some, 2 * lane + 1));
  }

 private:
  // A key that at least `count` tokens reach: the count-th largest of the warps' largest keys. Two
  // of the most probable tokens are seldom in the same warp, so that not many more reach it.
  __device__ uint32_t cutoff_of_warps(int count) const {
    constexpr int all = blocks * warps, parts = 4;  // threads that rank a warp's key
    static_assert(parts * all <= threads && all % (4 * parts) == 0);
    const int own = int(threadIdx.x) / parts;
    if (own < all) {  // whole warps
      const uint32_t mine = shared.key_of_warp[own];
      const auto* const four = reinterpret_cast<const uint4*>(shared.key_of_warp);
      int before = 0;
#pragma unroll 4
      for (int i = int(threadIdx.x) % parts; i < all / 4; i += parts) {
        const uint4 keys = four[i];
        const int ahead = own - 4 * i;  // equal keys are in the order of warps
        before += (keys.x > mine || (keys.x == mine && 0 < ahead)) +
                  (keys.y > mine || (keys.y == mine && 1 < ahead)) +
                  (keys.z > mine || (keys.z == mine && 2 < ahead)) +
                  (keys.w > mine || (keys.w == mine && 3 < ahead));
      }
      before += __shfl_xor_sync(~0u, before, 1);
      before += __shfl_xor_sync(~0u, before, 2);
      if (before + 1 == count) shared.cutoff = mine;
    }
    __syncthreads();
    return shared.cutoff;
  }
  // The same by radix select, until few tokens reach it; -1 where they never become few.
  __device__ int64_t cutoff_of_digits(int count) {
    uint32_t known = 0;
    Digit found{0, 0, 0};
    int shift = 32;
    do {
      shift -= 8;
      found = digit(CountMeasure{}, known, shift, found.above, uint64_t(count));
      known |= found.digit << shift;
    } while (shift > 0 && found.above + found.own > most_candidates);
    return found.above + found.own > most_candidates ? -1 : int64_t(known);
  }
  // The tokens that reach a key become the candidates, in the first block. False: there are too
  // many, and the candidates are empty again.
  __device__ bool gather(uint32_t cutoff) const {
    each([&](int32_t i, float logit) {
      const uint32_t key = key_of(logit);
      if (key < cutoff || CountMeasure{}(i, logit) == 0) return;
      const int place = atomicAdd(&in_block(shared.candidates, 0), 1);
      if (place < most_candidates) in_block(shared.candidate[place], 0) = entry_of(i, key);
    });
    barrier();
    if (in_block(shared.candidates, 0) <= most_candidates) return true;
    barrier();
    if (threadIdx.x == 0) shared.candidates = 0;
    barrier();
    return false;
  }

  template <class Measure>
  __device__ Sum of_listed(const Measure& measure, int some, int number) const {
    if (number >= some) return 0;
    const Sum entry = shared.listed[number];
    return measure(token_of(entry), logit_in(entry));
  }
  // reach within this warp's tokens, most of which are skipped four at a time.
  template <class Measure>
  __device__ int32_t reach_in_warp(const Measure& measure, Sum before, Sum passed) const {
    constexpr int at_once = 4;
    for (int32_t from = begin; from < end; from += at_once * 32) {
      Sum own[at_once], some = 0;
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int32_t token = from + i * 32 + lane;
        own[i] = token < end ? measure(token, row[token]) : 0;
        some += own[i];
      }
      some = warp_total(some);
      if (passed + some <= before) {
        passed += some;
        continue;
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const Sum running = passed + warp_running(own[i]);
        const unsigned beyond = __ballot_sync(~0u, running > before);
        if (beyond) return from + i * 32 + __ffs(int(beyond)) - 1;
        passed = __shfl_sync(~0u, running, 31);
      }
    }
    return -1;
  }
};

template <int blocks>
__device__ void sample(float* logits, int64_t vocabulary, const SamplingParams& how,
                       const TokenPenalty* penalties, SampledToken* to) {
  __shared__ Shared shared;
  BlockPasses<blocks> passes(logits, int32_t(vocabulary), int(blockIdx.x) % blocks, shared);
  grid_dependency_synchronize();
  for (int64_t i = how.penalties_begin + threadIdx.x; i < how.penalties_end; i += threads) {
    const TokenPenalty penalty = penalties[i];
    if (penalty.token >= passes.whole_begin && penalty.token < passes.whole_end)
      logits[penalty.token] -= penalty.amount;
  }
  if (threadIdx.x == 0) shared.candidates = 0;
  passes.barrier();  // all blocks run, before one writes into another
  const SampledToken sampled = sample_with(passes, vocabulary, how);
  if (passes.rank == 0 && threadIdx.x == 0) *to = sampled;
  passes.barrier();  // shared memory stays alive while another block may read it
}

template <int blocks>
__global__ void __launch_bounds__(threads)
    sample_rows_kernel(const __grid_constant__ SampleRows op) {
  const int64_t row = blockIdx.x / blocks;
  sample<blocks>(op.logits + row * op.vocabulary, op.vocabulary, op.params[row], op.penalties,
            op.sampled + row);
}

template <int blocks>
__global__ void __launch_bounds__(threads) sample_row_kernel(const __grid_constant__ SampleRow op) {
  sample<blocks>(op.logits, op.vocabulary, op.params, op.penalties, op.sampled);
}

void expect_row(int64_t vocabulary) {
  require(vocabulary > 0 && vocabulary < int64_t{1} << 30, "a row has logits");
}

}  // namespace

void sample_rows(const SampleRows& op, const Gpu& gpu) {
  expect_row(op.vocabulary);
  if (op.rows == 0) return;
  // As many blocks of a row as let all rows be resident at once: one of them on a multiprocessor.
  const int64_t resident = gpu.properties().multiprocessors / op.rows;
  const auto run = [&]<int blocks>() {
    launch_cluster(sample_rows_kernel<blocks>, {unsigned(op.rows * blocks), threads},
                   unsigned(blocks), gpu, op);
  };
  if (gpu.properties().capability < 90 || resident < 2)
    return launch(sample_rows_kernel<1>, {unsigned(op.rows), threads}, gpu, op);
  if (resident < 4) return run.operator()<2>();
  resident < most_blocks ? run.operator()<4>() : run.operator()<most_blocks>();
}

void sample_row(const SampleRow& op, const Gpu& gpu) {
  expect_row(op.vocabulary);
  if (gpu.properties().capability < 90) return launch(sample_row_kernel<1>, {1, threads}, gpu, op);
  launch_cluster(sample_row_kernel<most_blocks>, {most_blocks, threads}, most_blocks, gpu, op);
}

}  // namespace deltasane::kernel::cuda
