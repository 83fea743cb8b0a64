#include "kernel/activation/gated_cuda.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    gate_rows(const __grid_constant__ GatedRows<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.channels / width, row = i / pieces, c = i % pieces * width;
  if (row >= op.rows) return;
  float gate[width], x[width];
  load_channels<width>(op.gate + row * op.gate_step + c, gate);
  load_channels<width>(op.x + row * op.channels + c, x);
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const float s = sigmoid(gate[j]);
    x[j] *= op.activation == GateActivation::silu ? gate[j] * s : s;
  }
  store_channels<width>(op.x + row * op.channels + c, x);
}

}  // namespace

template <class Real>
void multiply_by_gate(const GatedRows<Real>& op, const Gpu& gpu) {
  if (op.rows == 0) return;
  with_width(in_eights({op.channels, op.gate_step}, {op.gate, op.x}), [&]<int width>() {
    launch(gate_rows<width, Real>, {blocks_for(op.rows * (op.channels / width)), channel_threads},
           gpu, op);
  });
}

template void multiply_by_gate(const GatedRows<float>&, const Gpu&);
template void multiply_by_gate(const GatedRows<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
