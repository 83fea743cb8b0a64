#include "kernel/rows/heads_cuda.h"

#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    copy_each(const __grid_constant__ CopyHeads<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.size / width, both = i / pieces, c = i % pieces * width;
  const int64_t row = both / op.heads, head = both % op.heads;
  if (row >= op.rows) return;
  float x[width];
  load_channels<width>(op.from + row * op.from_row + head * op.from_head + c, x);
  store_channels<width>(op.to + row * op.to_row + head * op.to_head + c, x);
}

}  // namespace

template <class Real>
void copy_heads(const CopyHeads<Real>& op, const Gpu& gpu) {
  if (op.rows * op.heads * op.size == 0) return;
  const bool eight = in_eights({op.size, op.from_row, op.from_head, op.to_row, op.to_head},
                               {op.from, op.to});
  with_width(eight, [&]<int width>() {
    launch(copy_each<width, Real>,
           {blocks_for(op.rows * op.heads * (op.size / width)), channel_threads}, gpu, op);
  });
}

template void copy_heads(const CopyHeads<float>&, const Gpu&);
template void copy_heads(const CopyHeads<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
