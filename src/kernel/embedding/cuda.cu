#include "kernel/embedding/cuda.h"

#include "kernel/cuda/channel_width.cuh"
#include "kernel/norm/cuda_rows.cuh"

namespace deltasane::kernel::cuda {
namespace {

template <class Real>
void normed_rows(const RowBlock& rows, const int32_t* tokens, const Real* table,
                 const float* weight, const float* bias, float eps, float* x, const Gpu& gpu) {
  norm_rows<Real, float>(rows.rows(), {table, tokens, 0, 1, rows.channels, weight, bias, eps, x},
                         gpu);
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    gather_rows(const int32_t* tokens, const Real* table, int64_t rows, int64_t channels, float* x) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = channels / width, row = i / pieces, c = i % pieces * width;
  if (row >= rows) return;
  float some[width];
  load_channels<width>(table + int64_t(tokens[row]) * channels + c, some);
  store_channels<width>(x + row * channels + c, some);
}

}  // namespace

void embed(const RowBlock& rows, const int32_t* tokens, const float* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  normed_rows(rows, tokens, table, weight, bias, eps, x, gpu);
}
void embed(const RowBlock& rows, const int32_t* tokens, const bf16* table, const float* weight,
           const float* bias, float eps, float* x, const Gpu& gpu) {
  normed_rows(rows, tokens, table, weight, bias, eps, x, gpu);
}

template <class Real>
void embed(const RowBlock& rows, const int32_t* tokens, const Real* table, float* x,
           const Gpu& gpu) {
  const int64_t count = rows.rows(), channels = rows.channels;
  if (count == 0) return;
  with_width(in_eights({channels}, {table, x}), [&]<int width>() {
    launch(gather_rows<width, Real>, {blocks_for(count * (channels / width)), channel_threads}, gpu,
           tokens, table, count, channels, x);
  });
}
template void embed(const RowBlock&, const int32_t*, const float*, float*, const Gpu&);
template void embed(const RowBlock&, const int32_t*, const bf16*, float*, const Gpu&);

}  // namespace deltasane::kernel::cuda
