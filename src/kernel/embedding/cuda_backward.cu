// The gradient of the embedding's table. Rows are sorted by token (a stable counting sort): the
// rank of a row among those of its token is the number of equal tokens before it, counted by
// comparing all with all (32768 rows: half a billion comparisons, tens of microseconds); places are
// the prefix sums of the counts. Only integers are added by atomics, so nothing depends on their
// order.
#include <algorithm>

#include "kernel/cuda/vectorized_row.cuh"
#include "kernel/embedding/cuda.h"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256;
constexpr int tile = 2048;  // tokens that a block compares its rows with

__global__ void __launch_bounds__(threads)
    rank_rows(const int32_t* tokens, int rows, int32_t* rank) {
  __shared__ int32_t other[tile];
  const int first_row = int(blockIdx.x) * threads, row = first_row + int(threadIdx.x);
  const int begin = int(blockIdx.y) * tile;
  if (begin >= first_row + threads) return;  // all of them come later
  for (int i = int(threadIdx.x); i < tile; i += threads)
    other[i] = begin + i < rows ? tokens[begin + i] : -1;
  __syncthreads();
  if (row >= rows) return;
  const int32_t token = tokens[row];
  const int count = min(tile, row - begin);  // tokens before this row
  int equal = 0;
#pragma unroll 8
  for (int i = 0; i < count; ++i) equal += other[i] == token;
  if (equal > 0) atomicAdd(rank + row, equal);
}

__global__ void __launch_bounds__(threads)
    count_tokens(const int32_t* tokens, int rows, int32_t* counts) {
  const int row = int(blockIdx.x) * threads + int(threadIdx.x);
  if (row < rows) atomicAdd(counts + tokens[row], 1);
}

// places[i] = counts[0] + ... + counts[i - 1]; one block
__global__ void __launch_bounds__(1024)
    sum_counts(const int32_t* counts, int vocabulary, int32_t* places) {
  __shared__ int32_t sums[1024];
  const int thread = int(threadIdx.x), share = (vocabulary + 1023) / 1024;
  const int begin = min(vocabulary, thread * share), end = min(vocabulary, begin + share);
  int own = 0;
  for (int i = begin; i < end; ++i) own += counts[i];
  sums[thread] = own;
  __syncthreads();
  for (int step = 1; step < 1024; step *= 2) {
    const int left = thread >= step ? sums[thread - step] : 0;
    __syncthreads();
    sums[thread] += left;
    __syncthreads();
  }
  int sum = sums[thread] - own;
  for (int i = begin; i < end; ++i) {
    places[i] = sum;
    sum += counts[i];
  }
}

__global__ void __launch_bounds__(threads)
    place_rows(const int32_t* tokens, int rows, const int32_t* rank, const int32_t* places,
               int32_t* order) {
  const int row = int(blockIdx.x) * threads + int(threadIdx.x);
  if (row < rows) order[places[tokens[row]] + rank[row]] = row;
}

// One block for each row that is the first of its token.
__global__ void __launch_bounds__(1024)
    add_token_rows(const int32_t* tokens, int channels, const int32_t* rank, const int32_t* counts,
                   const int32_t* places, const int32_t* order, const float* dx, float* dtable) {
  const int row = int(blockIdx.x), c = int(threadIdx.x) * octet;
  if (rank[row] != 0 || c >= channels) return;
  const int32_t token = tokens[row], count = counts[token];
  const int32_t* const mine = order + places[token];
  float* const to = dtable + int64_t(token) * channels + c;
  float sum[octet];
  load(to, sum);
#pragma unroll 4
  for (int j = 0; j < count; ++j) {
    float d[octet];
    load(dx + int64_t(mine[j]) * channels + c, d);
#pragma unroll
    for (int i = 0; i < octet; ++i) sum[i] += d[i];
  }
  store(to, sum);
}

}  // namespace

int64_t embed_scratch(const RowBlock& rows, int64_t vocabulary) {
  return 2 * (rows.rows() + vocabulary);
}

void embed_backward(const RowBlock& rows, const int32_t* tokens, int64_t vocabulary,
                    const float* dx, float* dtable, int32_t* scratch, const Gpu& gpu) {
  const int64_t many = rows.rows();
  if (many == 0) return;
  require(many <= int64_t{1} << 26 && vocabulary <= int64_t{1} << 26,
          "rows and tokens are counted in 32 bits");
  const unsigned row_threads = threads_of_row(rows.channels);
  require_aligned(dx, dtable);
  const int count = int(many);
  int32_t* const rank = scratch;
  int32_t* const counts = rank + many;
  int32_t* const places = counts + vocabulary;
  int32_t* const order = places + vocabulary;
  zero_on_gpu(rank, uint64_t(many + vocabulary) * sizeof(int32_t), gpu);  // and counts
  const unsigned blocks = unsigned((many + threads - 1) / threads);
  launch(rank_rows, {dim3(blocks, unsigned((many + tile - 1) / tile)), threads}, gpu, tokens, count,
         rank);
  launch(count_tokens, {blocks, threads}, gpu, tokens, count, counts);
  launch(sum_counts, {1, 1024}, gpu, counts, int(vocabulary), places);
  launch(place_rows, {blocks, threads}, gpu, tokens, count, rank, places, order);
  launch(add_token_rows, {unsigned(many), row_threads}, gpu, tokens, int(rows.channels), rank,
         counts, places, order, dx, dtable);
}

}  // namespace deltasane::kernel::cuda
