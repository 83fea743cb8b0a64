#include "kernel/rope/cuda.h"

#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

// A thread has a pair of channels of all heads of a row: they turn by one angle.
template <class Real>
__global__ void __launch_bounds__(channel_threads) rotate(const __grid_constant__ Rope<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x, half = op.rotary / 2;
  const int64_t row = i / half, c = i % half;
  if (row >= op.rows.rows) return;
  const int sequence = op.rows.sequence[row];
  const int64_t position = op.rows.position[sequence] + row - op.rows.first[sequence];
  const double angle = double(position) * op.frequencies[c];
  const float cosine = float(cos(angle)), sine = float(sin(angle));
  for (int64_t h = 0; h < op.heads; ++h) {
    Real* const x = op.x + row * op.step + h * op.size + c;
    const float a = to_float(x[0]), b = to_float(x[half]);
    store_one(x, a * cosine - b * sine);
    store_one(x + half, b * cosine + a * sine);
  }
}

}  // namespace

template <class Real>
void rope(const Rope<Real>& op, const Gpu& gpu) {
  if (op.rotary == 0 || op.rows.rows == 0) return;
  launch(rotate<Real>, {blocks_for(op.rows.rows * op.rotary / 2), channel_threads}, gpu, op);
}

template void rope(const Rope<float>&, const Gpu&);
template void rope(const Rope<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
