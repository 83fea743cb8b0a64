#include "kernel/experts/cuda.h"

#include "kernel/activation/cuda_sigmoid.cuh"
#include "kernel/cuda/channel_width.cuh"
#include "tensor/cuda/launch.h"

namespace deltasane::kernel::cuda {
namespace {

constexpr int block_warps = channel_threads / 32;

// A warp has a row. Of equal scores the expert of the lower number comes first.
__global__ void __launch_bounds__(channel_threads)
    choose_experts(const __grid_constant__ RouteRows op) {
  const int64_t row = int64_t(blockIdx.x) * block_warps + threadIdx.x / 32;
  const int lane = int(threadIdx.x) % 32, experts = int(op.experts), used = int(op.router.used);
  if (row >= op.rows) return;
  const float* const logits = op.logits + row * experts;
  Choice* const chosen = op.chosen + row * used;
  const bool softmax = op.router.score == RouterScore::softmax;
  float largest = -INFINITY, sum = 0;
  for (int e = lane; e < experts; e += 32) largest = fmaxf(largest, logits[e]);
  largest = warp_max(largest);
  for (int e = lane; e < experts; e += 32) sum += expf(logits[e] - largest);
  sum = warp_sum(sum);
  const auto score = [&](int e) {
    return softmax ? expf(logits[e] - largest) / sum : sigmoid(logits[e]);
  };
  float last = INFINITY, total = 1e-20f;
  int last_expert = -1;
  for (int i = 0; i < used; ++i) {
    float best = -INFINITY;
    int of_best = experts;
    for (int e = lane; e < experts; e += 32) {
      const float order = score(e) + (op.router.bias ? op.router.bias[e] : 0.0f);
      const bool is_left = order < last || (order == last && e > last_expert);
      if (is_left && order > best) best = order, of_best = e;
    }
#pragma unroll
    for (int far = 16; far > 0; far /= 2) {
      const float other = __shfl_xor_sync(~0u, best, far);
      const int of_other = __shfl_xor_sync(~0u, of_best, far);
      if (other > best || (other == best && of_other < of_best)) best = other, of_best = of_other;
    }
    last = best, last_expert = min(of_best, experts - 1);  // a NaN is greater than nothing
    const float own = score(last_expert);
    total += own;
    if (lane == 0) chosen[i] = {last_expert, own};
  }
  __syncwarp();
  if (lane == 0)
    for (int i = 0; i < used; ++i)
      chosen[i].weight =
          op.router.scale * chosen[i].weight / (op.router.renormalize ? total : 1.0f);
}

template <int width, class A, class B>
__device__ float warp_dot(const A* a, const B* b, int64_t count) {
  float sum = 0;
  for (int64_t c = int64_t(threadIdx.x % 32) * width; c < count; c += 32 * width) {
    float x[width], y[width];
    load_channels<width>(a + c, x), load_channels<width>(b + c, y);
#pragma unroll
    for (int i = 0; i < width; ++i) sum = fmaf(x[i], y[i], sum);
  }
  return warp_sum(sum);
}

// A warp has a column of a choice's hidden row.
template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    hidden_of_choices(const __grid_constant__ ExpertRows<Real> op) {
  const int64_t column = int64_t(blockIdx.x) * block_warps + threadIdx.x / 32, slot = blockIdx.y;
  if (column >= op.width) return;
  const int64_t expert = op.chosen[slot].expert;
  const Real* const x = op.x + slot / op.used * op.channels;
  const Real* const gate = op.gate_and_up + (expert * op.width + column) * op.channels;
  const Real* const up = gate + op.experts * op.width * op.channels;
  const float g = warp_dot<width>(gate, x, op.channels), u = warp_dot<width>(up, x, op.channels);
  if (threadIdx.x % 32 == 0) op.hidden[slot * op.width + column] = g * sigmoid(g) * u;
}

// A warp has a channel of a row.
template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    add_choices(const __grid_constant__ ExpertRows<Real> op) {
  const int64_t channel = int64_t(blockIdx.x) * block_warps + threadIdx.x / 32, row = blockIdx.y;
  if (channel >= op.channels) return;
  float sum = 0;
  for (int64_t slot = row * op.used; slot < (row + 1) * op.used; ++slot) {
    const Choice choice = op.chosen[slot];
    const Real* const down = op.down + (choice.expert * op.channels + channel) * op.width;
    sum = fmaf(choice.weight, warp_dot<width>(down, op.hidden + slot * op.width, op.width), sum);
  }
  if (threadIdx.x % 32 == 0) op.y[row * op.channels + channel] += sum;
}

template <int width, class Real>
__global__ void __launch_bounds__(channel_threads)
    gather(const __grid_constant__ GatherRows<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t pieces = op.channels / width, slot = i / pieces, c = i % pieces * width;
  if (slot >= op.slots) return;
  float x[width];
  load_channels<width>(op.x + op.row[slot] * op.channels + c, x);
  store_channels<width>(op.y + slot * op.channels + c, x);
}

__global__ void __launch_bounds__(channel_threads) add_places(const __grid_constant__ AddSlots op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  const int64_t row = i / op.channels, c = i % op.channels;
  if (row >= op.rows) return;
  float sum = op.y[i];
  for (int64_t j = row * op.used; j < (row + 1) * op.used; ++j)
    sum = fmaf(op.chosen[j].weight, op.x[op.place[j] * op.channels + c], sum);
  op.y[i] = sum;
}

template <class Real>
__global__ void __launch_bounds__(channel_threads)
    scale_each(const __grid_constant__ ScaledRows<Real> op) {
  const int64_t i = int64_t(blockIdx.x) * channel_threads + threadIdx.x;
  if (i < op.rows * op.channels)
    store_one(op.x + i, to_float(op.x[i]) * sigmoid(op.z[i / op.channels]));
}

}  // namespace

void route_rows(const RouteRows& op, const Gpu& gpu) {
  require(op.router.used >= 1 && op.router.used <= op.experts,
          "route_rows: expected as many experts as are used");
  if (op.rows > 0)
    launch(choose_experts, {unsigned((op.rows + block_warps - 1) / block_warps), channel_threads},
           gpu, op);
}

template <class Real>
void add_expert_rows(const ExpertRows<Real>& op, const Gpu& gpu) {
  if (op.rows == 0) return;
  const auto blocks = [](int64_t columns) {
    return unsigned((columns + block_warps - 1) / block_warps);
  };
  with_width(in_eights({op.channels, op.width}, {op.gate_and_up, op.down, op.x, op.hidden}),
             [&]<int width>() {
               launch(hidden_of_choices<width, Real>,
                      {dim3(blocks(op.width), unsigned(op.rows * op.used)), channel_threads}, gpu,
                      op);
               launch(add_choices<width, Real>,
                      {dim3(blocks(op.channels), unsigned(op.rows)), channel_threads}, gpu, op);
             });
}

template <class Real>
void gather_rows(const GatherRows<Real>& op, const Gpu& gpu) {
  if (op.slots == 0) return;
  with_width(in_eights({op.channels}, {op.x, op.y}), [&]<int width>() {
    launch(gather<width, Real>, {blocks_for(op.slots * (op.channels / width)), channel_threads},
           gpu, op);
  });
}

void add_slots(const AddSlots& op, const Gpu& gpu) {
  if (op.rows > 0) launch(add_places, {blocks_for(op.rows * op.channels), channel_threads}, gpu, op);
}

template <class Real>
void scale_rows(const ScaledRows<Real>& op, const Gpu& gpu) {
  if (op.rows > 0)
    launch(scale_each<Real>, {blocks_for(op.rows * op.channels), channel_threads}, gpu, op);
}

template void add_expert_rows(const ExpertRows<float>&, const Gpu&);
template void add_expert_rows(const ExpertRows<bf16>&, const Gpu&);
template void gather_rows(const GatherRows<float>&, const Gpu&);
template void gather_rows(const GatherRows<bf16>&, const Gpu&);
template void scale_rows(const ScaledRows<float>&, const Gpu&);
template void scale_rows(const ScaledRows<bf16>&, const Gpu&);

}  // namespace deltasane::kernel::cuda
