// A block has some columns of a run of rows; the sums of the runs are added up by the same kernel.
#include "kernel/sums/columns_cuda.h"

#include <algorithm>

#include "kernel/cuda/vectorized_row.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int threads = 256, most_tile = 32;
constexpr int64_t rows_at_once = 1024, most_runs = 264;  // the same on every GPU

int64_t runs_of(int64_t rows) {
  return rows <= rows_at_once ? 1 : std::min(most_runs, rows / (rows_at_once / 8));
}

// tile: columns of a block, a power of two. to: (runs, columns).
template <class Real>
__global__ void __launch_bounds__(threads) sum_runs(const Real* x, int64_t rows, int64_t columns,
                                                    int64_t run, int tile, bool add, float* to) {
  __shared__ float of_line[threads];
  const int column = int(threadIdx.x) % tile, line = int(threadIdx.x) / tile;
  const int64_t c = int64_t(blockIdx.x) * tile + column;
  const int64_t end = min(rows, (blockIdx.y + 1) * run);
  float sum = 0;
  if (c < columns)
    for (int64_t row = blockIdx.y * run + line; row < end; row += threads / tile)
      sum += to_float(x[row * columns + c]);
  of_line[threadIdx.x] = sum;
  __syncthreads();
  if (line > 0 || c >= columns) return;
  for (int i = 1; i < threads / tile; ++i) sum += of_line[i * tile + column];
  float* const place = to + blockIdx.y * columns + c;
  *place = add ? *place + sum : sum;
}

__global__ void __launch_bounds__(threads)
    add_groups(const float* sums, int64_t groups, int64_t group, float* to) {
  const int64_t i = int64_t(blockIdx.x) * threads + threadIdx.x;
  if (i >= groups) return;
  float sum = 0;
  for (int64_t c = i * group; c < (i + 1) * group; ++c) sum += sums[c];
  to[i] += sum;
}

template <class Real>
void sum(const Real* x, int64_t rows, int64_t columns, int64_t runs, bool add, float* to,
         const Gpu& gpu) {
  int tile = 1;
  while (tile < most_tile && tile < columns) tile *= 2;
  launch(sum_runs<Real>,
         {dim3(unsigned((columns + tile - 1) / tile), unsigned(runs)), dim3(threads)}, gpu, x, rows,
         columns, (rows + runs - 1) / runs, tile, add, to);
}

}  // namespace

int64_t column_sums_scratch(int64_t rows, int64_t columns) { return (runs_of(rows) + 1) * columns; }

template <class Real>
void column_sums(const ColumnSums<Real>& op, const Gpu& gpu) {
  require(op.group > 0 && op.columns % op.group == 0, "column_sums: expected whole groups");
  if (op.rows == 0 || op.columns == 0) return;
  const int64_t runs = runs_of(op.rows);
  float* const runs_to = op.scratch;
  float* const totals = op.group == 1 ? op.to : op.scratch + runs * op.columns;
  const bool add = op.group == 1;
  if (runs == 1) {
    sum(op.x, op.rows, op.columns, 1, add, totals, gpu);
  } else {
    sum(op.x, op.rows, op.columns, runs, false, runs_to, gpu);
    sum<float>(runs_to, runs, op.columns, 1, add, totals, gpu);
  }
  if (op.group == 1) return;
  const int64_t groups = op.columns / op.group;
  launch(add_groups, {unsigned((groups + threads - 1) / threads), threads}, gpu, totals, groups,
         op.group, op.to);
}

template void column_sums(const ColumnSums<float>&, const Gpu&);
template void column_sums(const ColumnSums<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
