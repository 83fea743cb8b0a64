// A block has a row, which is walked some ten times and stays in the GPU's cache meanwhile. All
// threads of a block take every decision alike: what a walk returns, it returns to all of them.
#include "kernel/sampler/cuda.h"

#include "base/error.h"
#include "kernel/sampler/pick_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 1024, warps = threads / 32;
constexpr int copies = 16;  // of a histogram: most tokens have the same few digits

using Sum = unsigned long long;

struct Shared {
  Sum of_digit[256][copies];
  Sum of_warp[warps];
  RowScan scan_of_warp[warps];
  Digit digit;
  int32_t token;
};

__device__ Sum warp_total(Sum x) {
#pragma unroll
  for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(~0u, x, far);
  return x;
}
// Of the threads up to this one.
__device__ Sum warp_running(Sum x) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int far = 1; far < 32; far *= 2) {
    const Sum other = __shfl_up_sync(~0u, x, far);
    if (lane >= far) x += other;
  }
  return x;
}

// Each walk ends with a barrier after its last use of what is shared.
struct Block {
  const float* row;
  int32_t count;
  Shared& shared;
  int lane, warp;

  __device__ Block(const float* logits, int32_t vocabulary, Shared& place)
      : row(logits),
        count(vocabulary),
        shared(place),
        lane(int(threadIdx.x) % 32),
        warp(int(threadIdx.x) / 32) {}

  __device__ float logit(int32_t token) const { return row[token]; }

  __device__ RowScan scan() {
    RowScan mine;
#pragma unroll 4
    for (int32_t i = int32_t(threadIdx.x); i < count; i += threads)
      mine = joined(mine, scanned(i, row[i]));
#pragma unroll
    for (int far = 16; far > 0; far /= 2) {
      RowScan other;
      other.largest = __shfl_xor_sync(~0u, mine.largest, far);
      other.top = __shfl_xor_sync(~0u, mine.top, far);
      other.broken = __shfl_xor_sync(~0u, mine.broken, far);
      mine = joined(mine, other);
    }
    if (lane == 0) shared.scan_of_warp[warp] = mine;
    __syncthreads();
    RowScan whole;
    for (int w = 0; w < warps; ++w) whole = joined(whole, shared.scan_of_warp[w]);
    __syncthreads();
    return whole;
  }

  template <class Measure>
  __device__ uint64_t total(const Measure& measure) {
    Sum mine = 0;
#pragma unroll 4
    for (int32_t i = int32_t(threadIdx.x); i < count; i += threads) mine += measure(i, row[i]);
    mine = warp_total(mine);
    if (lane == 0) shared.of_warp[warp] = mine;
    __syncthreads();
    Sum whole = 0;
    for (int w = 0; w < warps; ++w) whole += shared.of_warp[w];
    __syncthreads();
    return whole;
  }

  template <class Measure>
  __device__ Digit digit(const Measure& measure, uint32_t known, int shift, uint64_t above,
                         uint64_t need) {
    Sum* const sums = &shared.of_digit[0][0];
    for (int i = int(threadIdx.x); i < 256 * copies; i += threads) sums[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (int32_t i = int32_t(threadIdx.x); i < count; i += threads) {
      const float logit = row[i];
      const uint32_t key = key_of(logit);
      if (uint64_t(key ^ known) >> (shift + 8) != 0) continue;
      const Sum value = measure(i, logit);
      if (value != 0) atomicAdd(&shared.of_digit[key >> shift & 255][lane % copies], value);
    }
    __syncthreads();
    // Thread t has digit 255 - t: what lies above a digit is the sum of the threads before it.
    Sum own = 0, running = 0;
    if (threadIdx.x < 256) {
      for (int c = 0; c < copies; ++c) own += shared.of_digit[255 - threadIdx.x][c];
      running = warp_running(own);
      if (lane == 31) shared.of_warp[warp] = running;
    }
    __syncthreads();
    if (threadIdx.x < 256) {
      for (int w = 0; w < warp; ++w) running += shared.of_warp[w];
      const Sum larger = above + (running - own);
      const bool is_last = threadIdx.x == 255;  // there where rounding lets none reach it
      if (larger < need && (larger + own >= need || is_last))
        shared.digit = {255 - uint32_t(threadIdx.x), larger};
    }
    __syncthreads();
    const Digit found = shared.digit;
    __syncthreads();
    return found;
  }

  template <class Measure>
  __device__ int32_t reach(const Measure& measure, uint64_t before) {
    if (threadIdx.x == 0) shared.token = -1;
    Sum passed = 0;  // by the tokens of the rounds before
    for (int32_t from = 0; from < count && passed <= before; from += threads) {
      const int32_t token = from + int32_t(threadIdx.x);
      const Sum own = token < count ? measure(token, row[token]) : 0;
      Sum running = warp_running(own);
      if (lane == 31) shared.of_warp[warp] = running;
      __syncthreads();
      Sum round = 0;
      for (int w = 0; w < warps; ++w) {
        if (w == warp) running += passed + round;
        round += shared.of_warp[w];
      }
      if (running > before && running - own <= before) shared.token = token;
      passed += round;
      __syncthreads();
    }
    const int32_t found = shared.token;
    __syncthreads();
    return found;
  }
};

__global__ void __launch_bounds__(threads) pick_rows(const __grid_constant__ PickTokens op) {
  __shared__ Shared shared;
  const int64_t row = blockIdx.x;
  float* const logits = op.logits + row * op.vocabulary;
  const Picking how = op.picking[row];
  for (int64_t i = how.from + threadIdx.x; i < how.to; i += threads)
    logits[op.penalties[i].token] -= op.penalties[i].amount;
  __syncthreads();
  Block block(logits, int32_t(op.vocabulary), shared);
  const Picked picked = pick_row(block, op.vocabulary, how);
  if (threadIdx.x == 0) op.picked[row] = picked;
}

}  // namespace

void pick_tokens(const PickTokens& op, const Gpu& gpu) {
  require(op.vocabulary > 0 && op.vocabulary < int64_t{1} << 30, "a row has logits");
  if (op.rows == 0) return;
  launch(pick_rows, {unsigned(op.rows), threads}, gpu, op);
}

}  // namespace deltasane::kernel::cuda
