#include "kernel/activation/gated_cuda.h"

#include "kernel/activation/cuda_gate_value.cuh"
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
    x[j] *= gate_value(op.activation, gate[j]).value;
  }
  store_channels<width>(op.y + row * op.channels + c, x);
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    gate_backward(const __grid_constant__ GatedRowsGradient<Real> op) {
  const int64_t at = (int64_t(blockIdx.x) * channel_threads + threadIdx.x) * width;
  if (at >= op.count) return;
  float gate[width], x[width], dy[width], y[width];
  load_channels<width>(op.gate + at, gate);
  load_channels<width>(op.x + at, x);
  load_channels<width>(op.dy + at, dy);
#pragma unroll
  for (int j = 0; j < width; ++j) {
    const GateValue act = gate_value(op.activation, gate[j]);
    y[j] = act.value * x[j];
    gate[j] = dy[j] * x[j] * act.derivative;
    x[j] = dy[j] * act.value;
  }
  store_channels<width>(op.dgate + at, gate);
  store_channels<width>(op.dx + at, x);
  if (op.y) store_channels<width>(op.y + at, y);
}

}  // namespace

template <class Real>
void multiply_by_gate(const GatedRows<Real>& op, const Gpu& gpu) {
  if (op.rows == 0) return;
  with_width(in_eights({op.channels, op.gate_step}, {op.gate, op.x, op.y}), [&]<int width>() {
    launch(gate_rows<width, Real>, {blocks_for(op.rows * (op.channels / width)), channel_threads},
           gpu, op);
  });
}

template <class Real>
void multiply_by_gate_backward(const GatedRowsGradient<Real>& op, const Gpu& gpu) {
  if (op.count == 0) return;
  const bool eight =
      in_eights({op.count}, {op.gate, op.x, op.dy, op.dgate, op.dx, op.y});
  with_width(eight, [&]<int width>() {
    launch(gate_backward<width, Real>, {blocks_for(op.count / width), channel_threads}, gpu, op);
  });
}

template void multiply_by_gate_backward(const GatedRowsGradient<float>&, const Gpu&);
template void multiply_by_gate_backward(const GatedRowsGradient<bf16>&, const Gpu&);
template void multiply_by_gate(const GatedRows<float>&, const Gpu&);
template void multiply_by_gate(const GatedRows<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
